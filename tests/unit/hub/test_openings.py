"""What Whisper is told before it writes, in both directions."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import models

from attentif.errors import ConfigError
from attentif.files import write_json
from attentif.hub.generation import FILE
from attentif.hub.openings import most_tokens, read_opening, write_opening
from attentif.text import Tokenizer

NAMES = ["<|startoftranscript|>", "<|en|>", "<|fr|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>", "[UNK]"]
IDS = {name: number for number, name in enumerate(NAMES)}
SAID = {
    "decoder_start_token_id": 0,
    "lang_to_id": {"<|en|>": 1, "<|fr|>": 2},
    "task_to_id": {"transcribe": 3, "translate": 4},
    "no_timestamps_token_id": 5,
}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(Rust(models.WordLevel(IDS, unk_token="[UNK]")), {"unk": 6})


@pytest.mark.parametrize(
    ("more", "language", "task"),
    [
        ({}, None, "transcribe"),
        ({"language": "<|fr|>", "task": "translate"}, "fr", "translate"),
        ({"forced_decoder_ids": [[1, None], [2, 4]]}, None, "translate"),
        ({"forced_decoder_ids": [[1, 2], [2, 3], [3, 5]]}, "fr", "transcribe"),
    ],
)
def test_the_language_and_the_task_are_read_and_written(
    tmp_path: Path, tokenizer: Tokenizer, more: dict[str, object], language: str | None, task: str
) -> None:
    write_json(tmp_path / FILE, SAID | more)
    found = read_opening(tmp_path, {}, tokenizer)
    assert (found["language"], found["task"]) == (language, task)
    assert (found["first"], found["languages"], found["last"]) == (NAMES[:1], ["en", "fr"], NAMES[5:6])
    write_json(tmp_path / FILE, write_opening(found, tokenizer))
    assert read_opening(tmp_path, {}, tokenizer) == found


def test_older_folders_name_their_tokens_one_by_one(tmp_path: Path, tokenizer: Tokenizer) -> None:
    config = {"decoder_start_token_id": 0, "forced_decoder_ids": [[1, 2], [2, 3]]}
    found = read_opening(tmp_path, config, tokenizer)
    assert (found["first"], found["languages"], found["task"]) == (["<|startoftranscript|>", "<|fr|>", "<|transcribe|>"], [], None)
    write_json(tmp_path / FILE, write_opening(found, tokenizer))
    assert read_opening(tmp_path, {}, tokenizer) == found


def test_a_token_that_does_not_exist_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="decoder_start_token_id: 99 is no token"):
        read_opening(tmp_path, {"decoder_start_token_id": 99}, tokenizer)


def test_most_tokens_are_said_where_they_are_fewer_than_there_is_room_for(tmp_path: Path) -> None:
    assert most_tokens(tmp_path, {"max_length": 448, "max_target_positions": 448}) is None
    assert most_tokens(tmp_path, {"max_length": 100, "max_target_positions": 448}) == 100
