"""Imported models answer as transformers' own pipelines and `generate` do, with the customs of their folders.

Probabilities and vectors agree to 1e-5: the same float32 numbers, added in another order.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from foreign import FOLDERS, TEXTS, save
from PIL import Image
from transformers import AutoTokenizer, pipeline
from transformers.utils import logging

import attentif
from attentif.api import export_model, import_model

pytestmark = pytest.mark.parity

PIXELS = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
ASKED = ["Quel film magnifique !", "Un film trop long, et le roi ennuyeux.", "chat", TEXTS[3]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    place = tmp_path_factory.mktemp("foreign")
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    for name in FOLDERS:
        save(name, place / name)
    Image.fromarray(PIXELS.numpy()).save(place / "vit" / "picture.png")
    yield {name: place / name for name in FOLDERS}
    logging.set_verbosity(before)


@pytest.fixture(scope="module")
def runs(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("runs")
    return {name: import_model(folder, place / name) for name, folder in folders.items()}


def theirs(folder: Path, auto: str) -> Any:
    return getattr(transformers, auto).from_pretrained(folder).eval()


def scores(found: list[Any]) -> list[dict[str, float]]:
    return [{answer["label"]: answer["score"] for answer in row} for row in found]


@pytest.mark.parametrize("name", ["bert-classes", "roberta-classes", "roberta-several", "gpt2-classes"])
@pytest.mark.parametrize("pairs", [False, True])
def test_classes_are_those_of_the_pipeline(folders: dict[str, Path], name: str, pairs: bool) -> None:
    classify = pipeline("text-classification", model=str(folders[name]), top_k=None)
    run = attentif.load(folders[name])
    if pairs:
        asked = classify([{"text": text, "text_pair": "le chat"} for text in ASKED])
        found = run.predict([{"text": text, "pair": "le chat"} for text in ASKED])
    else:
        asked, found = classify(ASKED), run.predict(ASKED)
    for expected, answer in zip(scores(asked), found, strict=True):
        assert answer.scores == pytest.approx(expected, abs=1e-5)
        assert answer.output == max(expected, key=lambda label: expected[label]) or name == "roberta-several"


@pytest.mark.parametrize("name", ["bert-masked", "camembert-masked"])
def test_hidden_words_are_those_of_the_pipeline(folders: dict[str, Path], name: str) -> None:
    run = attentif.load(folders[name])
    mask = run.tokenizer.rust.id_to_token(run.tokenizer.mask)
    fill = pipeline("fill-mask", model=str(folders[name]), top_k=run.model.config.frontend.vocab)
    expected = {answer["token"]: answer["score"] for answer in fill(f"Un film {mask} long.")}
    assert run.predict([f"Un film {mask} long."])[0].probability == pytest.approx(max(expected.values()), rel=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_texts_are_continued_as_generate_does(folders: dict[str, Path], name: str) -> None:
    tokenizer, model, run = (
        AutoTokenizer.from_pretrained(folders[name]),
        theirs(folders[name], "AutoModelForCausalLM"),
        attentif.load(folders[name]),
    )
    for prompt in ("Il était", "The cat"):
        read = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        whole = model.generate(**read, max_new_tokens=40, do_sample=False)[0, read["input_ids"].shape[1] :].tolist()
        ends = [place for place, token in enumerate(whole) if token in run.tokenizer.ends]
        assert run.generate(prompt, max_tokens=40).tokens == whole[: ends[0] if ends else None]


def test_several_tokens_end_a_text(folders: dict[str, Path]) -> None:
    assert attentif.load(folders["llama"]).tokenizer.ends == {2, 5}
    assert attentif.load(folders["gpt2"]).tokenizer.ends == {2}


@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.parametrize("beams", [1, 3])
def test_answers_are_written_as_generate_does(folders: dict[str, Path], name: str, beams: int) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folders[name]), theirs(folders[name], "AutoModelForSeq2SeqLM")
    run = attentif.load(folders[name])
    for text, answer in zip(ASKED, run.predict(ASKED, max_tokens=16, beams=beams), strict=True):
        read = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        written = model.generate(**read, max_new_tokens=16, num_beams=beams, do_sample=False)
        assert answer.output == tokenizer.decode(written[0], skip_special_tokens=True)


def test_vectors_are_the_mean_of_the_encoders(folders: dict[str, Path]) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folders["bert-bare"]), theirs(folders["bert-bare"], "AutoModel")
    run = attentif.load(folders["bert-bare"])
    with torch.no_grad():
        expected = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for text in ASKED]
    np.testing.assert_allclose(run.task.vectors(run.model, run.tokenizers, ASKED), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert-answers", "roberta-answers"])
def test_questions_are_read_with_their_passages_as_theirs(folders: dict[str, Path], name: str) -> None:
    run, question, passage = attentif.load(folders[name]), "Quel roi ?", TEXTS[3]
    tokenizer, model = AutoTokenizer.from_pretrained(folders[name]), theirs(folders[name], "AutoModelForQuestionAnswering")
    read = tokenizer(question, passage, return_tensors="pt", return_offsets_mapping=True)
    owners, offsets = read.sequence_ids(), read.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        found = model(**read)
    inside = [place for place, owner in enumerate(owners) if owner == 1]
    first, last = (logits[0].double() for logits in (found.start_logits, found.end_logits))
    spans = [(a, b) for a in inside for b in inside if a <= b < a + run.config.task.max_answer]
    a, b = max(spans, key=lambda span: float(first[span[0]] + last[span[1]]))
    assert run.predict([{"question": question, "context": passage}])[0].output == passage[offsets[a][0] : offsets[b][1]].strip()


def test_tags_are_those_of_the_first_token_of_each_word(folders: dict[str, Path]) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folders["bert-tags"]), theirs(folders["bert-tags"], "AutoModelForTokenClassification")
    run = attentif.load(folders["bert-tags"])
    words = ["Un", "film", "magnifique", "!"]
    read = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        best = model(**read).logits[0].argmax(-1).tolist()
    owners = read.word_ids()
    expected = [model.config.id2label[best[owners.index(word)]] for word in range(len(words))]
    assert run.config.task.scheme == "IOB2"
    assert run.predict([{"tokens": words}])[0].details["tags"] == expected


def test_pictures_are_read_by_the_folders_own_numbers(folders: dict[str, Path]) -> None:
    run, model = attentif.load(folders["vit"]), theirs(folders["vit"], "AutoModelForImageClassification")
    with torch.no_grad():
        expected = model(((PIXELS / 255 - 0.5) / 0.5).movedim(-1, 0)[None]).logits.softmax(-1)[0].tolist()
    found = run.predict([str(folders["vit"] / "picture.png")])[0].scores
    assert [found[label] for label in run.config.task.labels] == pytest.approx(expected, abs=1e-5)


# ----------------------------------------------------------------------------------------------------------- as runs, and back


def answers(run: Any, folder: Path) -> tuple[Any, dict[str, float]]:
    """What is said, and by which numbers."""
    kind = run.config.task.kind
    if kind == "language":
        return run.generate("Il était", max_tokens=8).tokens, {}
    mask = "" if kind == "image" else run.tokenizer.rust.id_to_token(run.tokenizer.mask)
    asked = {"image": str(folder / "picture.png"), "answer": {"question": "Quel roi ?", "context": TEXTS[3]}, "masked": f"Un {mask} long."}
    found = run.predict([asked.get(kind, TEXTS[0])])[0]
    return found.output, found.scores


@pytest.mark.parametrize("name", FOLDERS)
def test_an_imported_run_answers_as_the_folder_it_came_from(folders: dict[str, Path], runs: dict[str, Path], name: str) -> None:
    direct, run = attentif.load(folders[name]), attentif.load(runs[name])
    files = {"config.toml", "manifest.json", "model.safetensors", "README.md", "task.json", *([] if name == "vit" else ["tokenizer.json"])}
    assert {path.name for path in runs[name].iterdir()} == files
    assert run.config.replace(made=None) == direct.config.replace(made=None)
    (said, scored), (expected, scores) = answers(run, folders["vit"]), answers(direct, folders["vit"])
    assert said == expected
    assert scored == pytest.approx(scores, abs=1e-6)  # the same numbers, elsewhere in memory: kernels add them in another order


@pytest.mark.parametrize("name", FOLDERS)
def test_an_exported_folder_is_the_one_that_was_imported(
    folders: dict[str, Path], runs: dict[str, Path], tmp_path: Path, name: str
) -> None:
    made = export_model(runs[name], tmp_path / "out")
    assert made.architecture == FOLDERS[name][0]
    kind = getattr(transformers, made.architecture)
    (before, _), (after, info) = (kind.from_pretrained(place, output_loading_info=True) for place in (folders[name], made.path))
    own = {key: tensor for key, tensor in after.state_dict().items() if name != "bert-bare" or not key.startswith("pooler")}
    wrong = [*({*info["missing_keys"]} & {*own}), *info["unexpected_keys"], *info["mismatched_keys"]]
    assert not wrong
    assert all(torch.equal(tensor, before.state_dict()[key]) for key, tensor in own.items())
    if name == "vit":
        return
    old, new = AutoTokenizer.from_pretrained(folders[name]), AutoTokenizer.from_pretrained(made.path)
    assert old(TEXTS)["input_ids"] == new(TEXTS)["input_ids"]
    assert old(TEXTS, TEXTS)["input_ids"] == new(TEXTS, TEXTS)["input_ids"]
    assert old.special_tokens_map.items() <= new.special_tokens_map.items()
    assert new.model_max_length == old.model_max_length
    if before.can_generate():
        for key in ("eos_token_id", "decoder_start_token_id"):
            assert getattr(before.generation_config, key) == getattr(after.generation_config, key)


def rewrite(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | values), encoding="utf-8")


@pytest.mark.parametrize("trained", [False, True])
def test_an_export_says_again_what_its_source_says_beside(folders: dict[str, Path], tmp_path: Path, trained: bool) -> None:
    """Limits on paper, lengths and sides; in a model that was trained further its task sets the length."""
    folder = shutil.copytree(folders["llama"], tmp_path / "llama")
    rewrite(folder / "config.json", max_position_embeddings=96)
    rewrite(folder / "tokenizer_config.json", padding_side="left", truncation_side="left", model_max_length=77)
    run = import_model(folder, tmp_path / "run")
    if trained:
        (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS * 20), encoding="utf-8")
        settings = {"task": {"kind": "language", "context": 16}, "model": {"from": str(run)}, "train": {"steps": 1, "threads": 1}}
        run = attentif.train(settings, tmp_path / "texts.txt", out=tmp_path / "begun").folder.path
    made = export_model(run, tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(made.path)
    assert json.loads((made.path / "config.json").read_text(encoding="utf-8"))["max_position_embeddings"] == 96
    assert (tokenizer.padding_side, tokenizer.truncation_side) == ("left", "left")
    assert tokenizer.model_max_length == (16 if trained else 77)


def test_an_export_has_the_class_of_its_source_where_two_have_such_heads(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["bert-bare"], tmp_path / "pairs")
    config = transformers.BertConfig.from_pretrained(folders["bert-bare"])
    transformers.BertForNextSentencePrediction(config).save_pretrained(tmp_path / "pairs")
    run = import_model(tmp_path / "pairs", tmp_path / "run")
    assert export_model(run, tmp_path / "out").architecture == "BertForNextSentencePrediction"
