"""Encoder-decoders write as `generate` does with all that their generation_config.json asks for: Marian, BART, T5."""

import json
import logging as python_logging
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from foreign import BART, STACKS, T5, TEXTS, bytes_merged
from foreign_sounds import spread
from transformers.utils import logging
from vocabularies import two_languages

import attentif
from attentif.api import export_model, import_model
from attentif.errors import ConfigError
from attentif.hub.pieces import read_pieces, write_pieces
from attentif.training.manifest import accept_files

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")]
logging.disable_progress_bar()
logging.set_verbosity_error()

ASKED = ["Le chat est là.", "Bonjour à tous, les amis !", ">>fra<< Good morning, my friends", TEXTS[0]]


def marian(folder: Path) -> Any:
    """A vocabulary of two languages and a code that asks for one."""
    folder.mkdir(parents=True, exist_ok=True)
    two_languages(folder)
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    del ids["<pad>"]
    ids |= {">>fra<<": len(ids), "<pad>": len(ids) + 1}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    said = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr", "model_max_length": 40}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    pad = ids["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(ids), decoder_vocab_size=len(ids), d_model=32, encoder_layers=2, decoder_layers=2, activation_function="swish",
        max_position_embeddings=64, scale_embedding=True, pad_token_id=pad, eos_token_id=0, bos_token_id=None, decoder_start_token_id=pad,
        forced_eos_token_id=0, **STACKS,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    sinusoids = model.model.encoder.embed_positions.weight.detach().clone()
    spread(model)
    with torch.no_grad():
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.copy_(sinusoids)
    customs = {"bad_words_ids": [[pad]], "num_beams": 4, "max_length": 24, "forced_eos_token_id": 0, "early_stopping": True}
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=pad, pad_token_id=pad, eos_token_id=0, bos_token_id=0, **customs
    )
    model.save_pretrained(folder)
    return model


def their_texts(folder: Path, texts: list[str], **options: Any) -> list[str]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found = []
    for text in texts:
        read = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        found.append(str(tokenizer.decode(model.generate(**read, **options)[0], skip_special_tokens=True)))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writers")
    marian(folder / "marian")
    return folder


@pytest.mark.parametrize("beams", [4, 1])
def test_marian_translates_with_its_two_tokenizers(place: Path, beams: int) -> None:
    run = attentif.load(place / "marian")
    assert run.config.task.limits.banned
    assert run.config.task.beams == 4
    assert run.translate(ASKED, beams=beams) == their_texts(place / "marian", ASKED, num_beams=beams, early_stopping=beams > 1)


def test_marian_is_a_run_and_a_folder_again(place: Path, tmp_path: Path) -> None:
    run = import_model(place / "marian", tmp_path / "run")
    expected = attentif.load(place / "marian").translate(ASKED)
    assert attentif.load(run).translate(ASKED) == expected
    out = export_model(run, tmp_path / "out").path
    assert (out / "target.spm").is_file()
    assert their_texts(out, ASKED) == expected
    again = attentif.load(out)
    assert again.translate(ASKED) == expected
    assert again.config.task == attentif.load(place / "marian").config.task
    first = [tokenizer.ids_batch(ASKED) for tokenizer in attentif.load(place / "marian").tokenizers.values()]
    assert [[ids.tolist() for ids in side] for side in first] == [
        [ids.tolist() for ids in tokenizer.ids_batch(ASKED)] for tokenizer in again.tokenizers.values()
    ]


def test_a_sentencepiece_model_that_is_written_is_read_again(place: Path, tmp_path: Path) -> None:
    import sentencepiece

    found = read_pieces(place / "marian" / "source.spm")
    write_pieces(tmp_path / "again.spm", found)
    assert read_pieces(tmp_path / "again.spm") == found
    theirs = [
        sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in (place / "marian" / "source.spm", tmp_path / "again.spm")
    ]
    assert theirs[0].encode(ASKED, out_type=str) == theirs[1].encode(ASKED, out_type=str)


CNN = {
    "decoder_start_token_id": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "forced_bos_token_id": 0,
    "forced_eos_token_id": 2, "min_length": 12, "max_length": 20, "no_repeat_ngram_size": 3, "num_beams": 4, "length_penalty": 2.0,
    "early_stopping": True, "suppress_tokens": [3, 4],
}  # fmt: skip


@pytest.mark.parametrize("beams", [4, 1])
def test_bart_keeps_to_what_its_maker_allows(tmp_path: Path, beams: int) -> None:
    tokenizer = bytes_merged()
    model = spread(transformers.BartForConditionalGeneration(transformers.BartConfig(vocab_size=len(tokenizer), **BART)))
    model.generation_config = transformers.GenerationConfig(**CNN)
    model.save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    run = attentif.load(tmp_path / "bart")
    limits = {"banned": (3, 4), "no_repeat_ngram": 3, "min_tokens": 10, "forced_end": True}
    assert run.config.task.limits.model_dump(exclude_defaults=True) == limits
    written = [answer.output for answer in run.predict(TEXTS, beams=beams)]
    assert written == their_texts(tmp_path / "bart", TEXTS, num_beams=beams, early_stopping=beams > 1)
    if beams == 4:
        out = export_model(import_model(tmp_path / "bart", tmp_path / "run"), tmp_path / "out").path
        assert their_texts(out, TEXTS) == written
        assert attentif.load(out).config.task == run.config.task


def test_t5_says_what_is_put_before_its_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = bytes_merged()
    asked = {
        "summarization": {"prefix": "summarize: ", "num_beams": 4},
        "translation_en_to_de": {"prefix": "translate English to German: "},
    }
    spread(transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=len(tokenizer), **T5))).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text()) | {"task_specific_params": asked}
    (tmp_path / "config.json").write_text(json.dumps(said))
    with caplog.at_level(python_logging.WARNING, logger="attentif"):
        run = attentif.load(tmp_path)
    assert "«summarize: ...», «translate English to German: ...»" in caplog.text
    text = f"translate English to German: {TEXTS[2]}"
    assert run.predict([text], max_tokens=12)[0].output == their_texts(tmp_path, [text], max_new_tokens=12)[0]


def test_two_tokenizers_that_marian_cannot_have_are_one_line(place: Path, tmp_path: Path) -> None:
    run = attentif.load(import_model(place / "marian", tmp_path / "run"))
    words = bytes_merged()
    words.backend_tokenizer.save(str(next(path for path in (tmp_path / "run").glob("*target*.json"))))
    accept_files(run.path)
    with pytest.raises(ConfigError, match=r"SentencePiece.*vocabulary"):
        export_model(run.path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
