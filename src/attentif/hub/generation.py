"""generation_config.json: how a checkpoint's maker lets it write, as far as our decoder has a word for it.

Without `do_sample` the likeliest token is taken whatever the temperature; with it, transformers draws among 50 where `top_k` is not said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attentif.hub.files import read_json

FILE = "generation_config.json"
TOP_K = 50  # of transformers, where a file says nothing
BEAMS = ("length_penalty", "early_stopping")
DRAWS = ("temperature", "top_p", "min_p")
# what would change the text, and our decoder has no word for: with the values that change nothing
UNHEARD: dict[str, tuple[Any, ...]] = {
    "diversity_penalty": (0.0,), "dola_layers": (), "encoder_no_repeat_ngram_size": (0,), "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,), "eta_cutoff": (0.0,), "exponential_decay_length_penalty": (), "force_words_ids": (), "guidance_scale": (1.0,),
    "max_time": (), "num_beam_groups": (1,), "penalty_alpha": (0.0,), "renormalize_logits": (False,), "sequence_bias": (),
    "stop_strings": ([],), "typical_p": (1.0,), "watermarking_config": (),
}  # fmt: skip
WITH_BEAMS = {"do_sample": (False,), "early_stopping": (False, True), "repetition_penalty": (1.0,)}  # the same, where it searches


@dataclass(frozen=True)
class DecodingDefaults:
    """How a model writes."""

    options: dict[str, Any] = field(default_factory=dict)  # of GenerateOptions
    start: list[int] = field(default_factory=list)  # what the decoder of two stacks begins with
    ends: list[int] = field(default_factory=list)  # tokens that end a text
    unheard: list[str] = field(default_factory=list)  # keys that our decoder has no word for


def read_decoding(folder: Path, config: Mapping[str, Any], *, two_stacks: bool) -> DecodingDefaults:
    """That of generation_config.json, or, in folders older than that file, of config.json."""
    return parse_decoding(read_json(folder / FILE) if (folder / FILE).is_file() else config, two_stacks=two_stacks)


def parse_decoding(given: Mapping[str, Any], *, two_stacks: bool) -> DecodingDefaults:
    said = {key: value for key, value in given.items() if value is not None}
    options: dict[str, Any] = {}
    if said.get("num_beams", 1) > 1:
        options["beams"] = said["num_beams"]
        options |= {key: said[key] for key in BEAMS if isinstance(said.get(key), bool | int | float)}
    elif said.get("do_sample") and said.get("temperature", 1.0) > 0:
        options |= {"temperature": 1.0, "top_k": TOP_K} | {key: said[key] for key in (*DRAWS, "top_k") if key in said}
        if not options["top_k"]:  # 0: all of them
            del options["top_k"]
    if "beams" not in options and said.get("repetition_penalty", 1.0) != 1.0:
        options["repetition_penalty"] = said["repetition_penalty"]
    first = said.get("decoder_start_token_id", said.get("bos_token_id"))
    second = said.get("forced_bos_token_id", said.get("bos_token_id") if said.get("force_bos_token_to_be_generated") else None)
    start = [*_ids(first), *_ids(second)] if two_stacks else []
    forced = max(len(start) - 1, 0)  # new tokens to them, and part of the beginning to us
    if "max_new_tokens" in said:
        options["max_tokens"] = said["max_new_tokens"] - forced
    elif two_stacks and said.get("max_length", 0) > len(start):  # counts what the decoder begins with
        options["max_tokens"] = said["max_length"] - len(start)
    ends = _ids(said.get("eos_token_id"))
    silent = UNHEARD | (WITH_BEAMS if "beams" in options else {})
    unheard = [key for key, nothing in silent.items() if key in said and said[key] not in nothing]
    limits, left = limits_of(said, ends, forced, len(start) if two_stacks else None)
    return DecodingDefaults(options | limits, start, ends, [*unheard, *left])


def limits_of(said: Mapping[str, Any], ends: Sequence[int], forced: int, start: int | None) -> tuple[dict[str, Any], list[str]]:
    """What may not be written, in the words of `Limits`, and the keys that have none: words of several tokens, lengths with a prompt."""
    found: dict[str, Any] = {}
    left = []
    words = [word for word in said.get("bad_words_ids", []) if [*word] not in [[end] for end in ends]]
    if any(len(word) != 1 for word in words):
        left.append("bad_words_ids")
    found["banned"] = tuple(sorted({word[0] for word in words if len(word) == 1} | set(_ids(said.get("suppress_tokens")))))
    found["banned_first"] = tuple(_ids(said.get("begin_suppress_tokens")))
    found["no_repeat_ngram"] = said.get("no_repeat_ngram_size", 0)
    found["min_tokens"] = max(said.get("min_new_tokens", 0) - forced, said.get("min_length", 0) - start if start is not None else 0, 0)
    if start is None and said.get("min_length"):
        left.append("min_length")
    last = _ids(said.get("forced_eos_token_id"))
    found["forced_end"] = bool(last) and sorted(last) == sorted(ends)
    if last and not found["forced_end"]:
        left.append("forced_eos_token_id")
    return {key: value for key, value in found.items() if value}, left


def _ids(value: Any) -> list[int]:
    numbers: Sequence[Any] = value if isinstance(value, list) else [value]
    return [number for number in numbers if isinstance(number, int)]


NAMES = {
    "beams": "num_beams", "max_tokens": "max_new_tokens", "banned": "suppress_tokens", "banned_first": "begin_suppress_tokens",
    "no_repeat_ngram": "no_repeat_ngram_size", "min_tokens": "min_new_tokens", "forced_end": "forced_eos_token_id",
}  # fmt: skip


def format_decoding(options: Mapping[str, Any], start: Sequence[str] = (), ends: int | list[int] | None = None) -> dict[str, Any]:
    """The same in their words, for a decoder that begins with `start` and ends with `ends`."""
    found: dict[str, Any] = {NAMES.get(key, key): [*value] if isinstance(value, tuple) else value for key, value in options.items()}
    for key in ("max_new_tokens", "min_new_tokens"):
        if key in found:
            found[key] += max(len(start) - 1, 0)
    if options.get("forced_end"):
        found["forced_eos_token_id"] = ends
    return found | ({"do_sample": True, "top_k": options.get("top_k", 0)} if options.get("temperature") else {})
