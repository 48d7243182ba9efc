"""Words and sentences of other people's models, as transformers has them: hidden words, vectors of texts, vectors of a word by layer."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from foreign import save
from transformers import AutoTokenizer, pipeline
from transformers.utils import logging

import attentif
from attentif.hub import read_folder
from attentif.training.imported import open_folder

pytestmark = pytest.mark.parity

TEXTS = ["Un film ennuyeux.", "The cat sat on the mat, long ago.", "Il était une fois un roi qui aimait les chats.", "Quel film !"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    logging.set_verbosity_error()
    place = tmp_path_factory.mktemp("folders")
    names = ("bert-masked", "roberta-masked", "bert-bare", "gpt2", "bart")
    for name in names:
        save(name, place / name)
    return {name: place / name for name in names}


@pytest.mark.parametrize("name", ["bert-masked", "roberta-masked"])
@pytest.mark.parametrize("mark", ["[MASK]", "<mask>", "___"])
def test_hidden_words_are_those_of_the_pipeline(folders: dict[str, Path], name: str, mark: str) -> None:
    run = attentif.load(folders[name])
    own = run.tokenizer.rust.id_to_token(run.tokenizer.mask)
    theirs: Any = pipeline("fill-mask", model=str(folders[name]), top_k=7)
    (ours,) = run.fill(f"Un film {mark} et long.", count=7).places
    expected = theirs(f"Un film {own} et long.")
    assert [guess.token for guess in ours] == [answer["token"] for answer in expected]
    squeezed = lambda text: "".join(text.split()).casefold()  # theirs is decoded, ours keeps the text as it was written
    assert [squeezed(guess.text) for guess in ours] == [squeezed(answer["sequence"]) for answer in expected]
    assert [guess.probability for guess in ours] == pytest.approx([answer["score"] for answer in expected], rel=1e-4)  # float32


@pytest.mark.parametrize("name", ["bert-masked", "roberta-masked"])
def test_several_hidden_words_are_those_of_the_pipeline(folders: dict[str, Path], name: str) -> None:
    run = attentif.load(folders[name])
    own = run.tokenizer.rust.id_to_token(run.tokenizer.mask)
    theirs: Any = pipeline("fill-mask", model=str(folders[name]), top_k=3)
    ours = run.fill("Un ___ magnifique et [MASK].", count=3)
    expected = theirs(f"Un {own} magnifique et {own}.")
    assert [[guess.token for guess in place] for place in ours.places] == [[answer["token"] for answer in place] for place in expected]
    shares = [[guess.probability for guess in place] for place in ours.places]
    assert np.array(shares) == pytest.approx(np.array([[answer["score"] for answer in place] for place in expected]), rel=1e-4)
    assert ours.text == ours.places[0][0].text == ours.places[1][0].text


def reference(folder: Path) -> tuple[Any, Any]:
    """The tokenizer, and the stack that reads: of an encoder-decoder, its encoder."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    return AutoTokenizer.from_pretrained(folder), model.get_encoder() if model.config.is_encoder_decoder else model


@pytest.mark.parametrize("name", ["bert-bare", "bert-masked", "gpt2", "bart"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_vectors_of_texts_are_pooled_from_the_states_of_theirs(folders: dict[str, Path], name: str, pooling: str) -> None:
    run, (tokenizer, model) = attentif.load(folders[name]), reference(folders[name])
    pool = {"mean": lambda x: x.mean(0), "cls": lambda x: x[0], "max": lambda x: x.amax(0), "last": lambda x: x[-1]}[pooling]
    with torch.no_grad():
        read = [tokenizer(text, return_tensors="pt", return_token_type_ids=False) for text in TEXTS]
        expected = torch.stack([pool(model(**inputs).last_hidden_state[0]) for inputs in read])
    ours = run.embed(TEXTS, pooling=pooling, normalise=False)
    assert (ours.dtype, ours.shape) == (np.float32, (4, 32))
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    unit = torch.nn.functional.normalize(expected, dim=-1)
    np.testing.assert_allclose(run.embed(TEXTS, pooling=pooling), unit, atol=1e-5)


def test_what_stands_beside_a_sentence_model_is_applied_or_said(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["gpt2"], tmp_path / "small")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 30, "do_lower_case": true}', encoding="utf-8")
    ours = read_folder(folder).tokenizer
    assert ours is not None
    assert ours.encode(TEXTS[0]).ids == AutoTokenizer.from_pretrained(folder)(TEXTS[0].lower())["input_ids"]
    folder = shutil.copytree(folders["bert-bare"], tmp_path / "prompted")
    said = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said), encoding="utf-8")
    (note,) = open_folder(folder).notes
    assert all(word in note for word in ("«query: »", "by itself", "config_sentence_transformers.json"))


@pytest.mark.parametrize("name", ["bert-bare", "gpt2", "bart"])
def test_a_word_has_the_mean_of_its_tokens_in_each_of_their_layers(folders: dict[str, Path], name: str) -> None:
    run, (tokenizer, model) = attentif.load(folders[name]), reference(folders[name])
    sentences = ["Un roi magnifique.", "The cat: Roi, mat."]
    found = run.senses("roi", sentences)
    assert len(found.layers) == 2
    for row, sentence in enumerate(sentences):
        read = tokenizer(sentence, return_tensors="pt", return_offsets_mapping=True, return_token_type_ids=False)
        begin, end = found.uses[row].start, found.uses[row].end
        assert sentence[begin:end].lower() == "roi"
        places = [place for place, (a, b) in enumerate(read.pop("offset_mapping")[0].tolist()) if max(a, begin) < min(b, end)]
        assert len(places) == len(found.uses[row].tokens)
        with torch.no_grad():
            states = model(**read, output_hidden_states=True).hidden_states[1:]
            static = model.get_input_embeddings().weight[read["input_ids"][0, places]].mean(0)
        np.testing.assert_allclose(found.static[row], static, atol=1e-5)
        for ours, theirs in zip(found.layers, states, strict=True):
            np.testing.assert_allclose(ours[row], theirs[0, places].mean(0), atol=2e-5)
