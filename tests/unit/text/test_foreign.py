"""A tokenizer of somebody else is tried in a process of its own: whatever it does there, the answer is one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import models

from attentif.errors import DataError, RunError
from attentif.text import Tokenizer, foreign
from attentif.text.foreign import check_tokenizer

PLAIN = json.loads(Rust(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).to_str())
BPE = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
SPECIAL = {"X": {"id": "X", "ids": [999_999], "tokens": ["X"]}}
SEQUENCES = {key: {"Sequence": {"id": key, "type_id": 0}} for key in "AB"}
TEMPLATE = {"type": "TemplateProcessing", "pair": [SEQUENCES["A"], SEQUENCES["B"]], "special_tokens": SPECIAL}


def write_tokenizer(folder: Path, **changes: Any) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(PLAIN | changes), encoding="utf-8")
    return file


def test_an_ordinary_tokenizer_passes(tmp_path: Path) -> None:
    check_tokenizer(write_tokenizer(tmp_path, pre_tokenizer={"type": "Whitespace"}))


HOSTILE = {
    "a merge that panics": {"model": BPE | {"fuse_unk": False, "byte_fallback": False, "vocab": {"a": 0}, "merges": [["a", "a"]]}},
    "a template with an id beyond the vocabulary": {
        "post_processor": TEMPLATE | {"single": [{"SpecialToken": {"id": "X", "type_id": 0}}, SEQUENCES["A"]]}
    },
    "an unknown token that is not there": {"model": {"type": "Unigram", "unk_id": 50, "vocab": [["a", -1.0]]}},
    "a token numbered in billions": {"model": {"type": "WordLevel", "vocab": {"[UNK]": 4_294_967_290}, "unk_token": "[UNK]"}},
    "a model of no kind": {"model": {"type": "Nonsense"}},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_tokenizer_is_refused_in_one_line(tmp_path: Path, changes: dict[str, Any]) -> None:
    file = write_tokenizer(tmp_path, **changes)
    with pytest.raises(RunError) as caught:
        check_tokenizer(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_normaliser_that_doubles_the_text_is_ended_within_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SECONDS", 1)
    doubling = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    file = write_tokenizer(tmp_path, normalizer={"type": "Sequence", "normalizers": [doubling] * 40})
    with pytest.raises(RunError, match="seconds"):
        check_tokenizer(file)


def test_a_file_larger_than_any_tokenizer_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LARGEST", 10)
    with pytest.raises(RunError, match="MB"):
        check_tokenizer(write_tokenizer(tmp_path))


def test_a_regular_expression_that_backtracks_is_an_error_of_the_text(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+(?=b)"}, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer.load(write_tokenizer(tmp_path, pre_tokenizer=split))
    with pytest.raises(DataError, match="cannot encode"):
        tokenizer.encode_batch(["a" * 2000 + "!"], wrap="none")
