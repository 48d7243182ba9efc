"""What Whisper's decoder is told before it writes, in generation_config.json: in both directions, in the words of `task.opening`.

    lang_to_id, task_to_id, no_timestamps_token_id          the tokens there are
    language, task                                          those that its maker chose; null: heard from the sound
    forced_decoder_ids [[1, 50265], [2, 50359]]             the same in older folders, place by place

A folder that chooses no task transcribes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.files import read_json
from attentif.hub.generation import FILE
from attentif.text import Tokenizer

DEFAULT = "transcribe"


def read_opening(folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """What `task.opening` would say."""
    said = _read_generation_config(folder, config)
    languages, tasks = (_table(said, key, folder) for key in ("lang_to_id", "task_to_id"))
    found: dict[str, Any] = {"languages": [_word(token) for token in languages], "tasks": [*tasks]}
    chosen = {"language": said.get("language"), "task": said.get("task")}
    first, last = [_name(tokenizer, said.get("decoder_start_token_id"), "decoder_start_token_id", folder)], []
    quiet = said.get("no_timestamps_token_id")
    if chosen == {"language": None, "task": None}:
        for _, token in said.get("forced_decoder_ids") or []:
            if token in languages.values():
                chosen["language"] = _word(_name(tokenizer, token, "forced_decoder_ids", folder))
            elif token in tasks.values():
                chosen["task"] = next(task for task, number in tasks.items() if number == token)
            elif token is not None and token != quiet:
                first.append(_name(tokenizer, token, "forced_decoder_ids", folder))
            elif token is not None:
                last = [_name(tokenizer, token, "forced_decoder_ids", folder)]
    if quiet is not None:
        last = [_name(tokenizer, quiet, "no_timestamps_token_id", folder)]
    chosen["language"] = None if chosen["language"] is None else _word(str(chosen["language"]))
    chosen["task"] = chosen["task"] or (DEFAULT if DEFAULT in tasks else None)
    return {"first": first, **found, **chosen, "last": last}


def write_opening(opening: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """The keys of generation_config.json for what `task.opening` says."""
    marked = lambda word: f"<|{word}|>"
    said: dict[str, Any] = {"decoder_start_token_id": tokenizer.id_of(opening["first"][0])}
    if opening["languages"]:
        said["lang_to_id"] = {marked(word): tokenizer.id_of(marked(word)) for word in opening["languages"]}
    if opening["tasks"]:
        said["task_to_id"] = {word: tokenizer.id_of(marked(word)) for word in opening["tasks"]}
    if opening["last"]:
        said["no_timestamps_token_id"] = tokenizer.id_of(opening["last"][-1])
    said["is_multilingual"] = bool(opening["languages"])
    more = [tokenizer.id_of(token) for token in opening["first"][1:]]
    if more:
        return said | {"forced_decoder_ids": [[place, token] for place, token in enumerate(more, 1)]}
    return said | {key: opening[key] for key in ("language", "task") if opening[key] is not None}


def most_tokens(folder: Path, config: Mapping[str, Any]) -> int | None:
    """Of a transcript: to Whisper, and to it alone, `max_length` counts what is written behind the opening."""
    said = _read_generation_config(folder, config)
    most = said.get("max_new_tokens") or said.get("max_length")
    return most if most and most < config.get("max_target_positions", 448) else None


def _read_generation_config(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """generation_config.json, and config.json beneath it as older folders have it."""
    return {**config, **(read_json(folder / FILE) if (folder / FILE).is_file() else {})}


def _table(said: Mapping[str, Any], key: str, folder: Path) -> dict[str, int]:
    table = said.get(key) or {}
    if not isinstance(table, dict) or not all(isinstance(number, int) for number in table.values()):
        raise ConfigError(f"{key}: is no table from names to ids", file=folder / FILE)
    return table


def _name(tokenizer: Tokenizer, token: Any, key: str, folder: Path) -> str:
    name = tokenizer.rust.id_to_token(token) if isinstance(token, int) else None
    if name is None:
        raise ConfigError(f"{key}: {token!r} is no token of the vocabulary", file=folder / FILE)
    return str(name)


def _word(token: str) -> str:
    return token.removeprefix("<|").removesuffix("|>")
