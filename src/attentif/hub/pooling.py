"""Sentence embeddings (Reimers & Gurevych 2019): how the vectors of a bare encoder become one.

sentence-transformers keeps it beside the model: `modules.json` lists the steps, `1_Pooling/config.json` says mean, first, last or largest,
a step called Normalize makes vectors of length 1. `do_lower_case` makes letters small first. Where there is none of these files the
family's own way holds (the mean, for encoders).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import normalizers

from attentif.errors import RunError
from attentif.files import write_json
from attentif.hub.family import HeadOf
from attentif.hub.files import read_json, read_list
from attentif.models.heads.embed import EmbedHeadConfig
from attentif.text import Tokenizer

MODULES, POOLING = "modules.json", "1_Pooling"
MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
}
LENGTH, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"


def set_pooling(head: HeadOf, folder: Path) -> HeadOf:
    """The bare encoder's head with the pooling that the folder asks for."""
    if head.head.get("kind") != "embed" or not (folder / MODULES).is_file():
        return head
    steps = [str(step.get("type", "")).rpartition(".")[2] for step in read_list(folder / MODULES)]
    if odd := [step for step in steps if step not in ("Transformer", "Pooling", "Normalize")]:
        raise RunError(f"asks for a step {odd[0]!r}, which is not understood", file=folder / MODULES)
    values: dict[str, Any] = {"normalise": "Normalize" in steps}
    file = folder / POOLING / "config.json"
    if file.is_file():
        asked = [key for key, value in read_json(file).items() if key.startswith("pooling_mode") and value]
        if len(asked) != 1 or asked[0] not in MODES:
            raise RunError(f"asks for {', '.join(asked) or 'no pooling'}; understood is one of {', '.join(MODES)}", file=file)
        values["pool"] = MODES[asked[0]]
    return replace(head, head={**head.head, **values})


def write_pooling(folder: Path, head: EmbedHeadConfig, width: int, max_len: int) -> None:
    """The same files, for sentence-transformers to read."""
    steps = [("", "Transformer"), (POOLING, "Pooling"), *([("2_Normalize", "Normalize")] if head.normalise else [])]
    names = [f"sentence_transformers.models.{kind}" for _, kind in steps]
    modules = [{"idx": n, "name": str(n), "path": path, "type": name} for n, ((path, _), name) in enumerate(zip(steps, names, strict=True))]
    write_json(folder / MODULES, modules)
    write_json(folder / LENGTH, {"max_seq_length": max_len, "do_lower_case": False})  # the tokenizer's own normalizer does that
    (folder / POOLING).mkdir()
    write_json(folder / POOLING / "config.json", {"word_embedding_dimension": width} | {k: head.pool == v for k, v in MODES.items()})


def apply_lowercase(folder: Path, tokenizer: Tokenizer | None) -> Tokenizer | None:
    """The tokenizer, with letters made small first where the folder asks for it (`do_lower_case`)."""
    if tokenizer is None or not (folder / LENGTH).is_file() or not read_json(folder / LENGTH).get("do_lower_case"):
        return tokenizer
    steps = [normalizers.Lowercase(), *([] if tokenizer.rust.normalizer is None else [tokenizer.rust.normalizer])]
    tokenizer.rust.normalizer = normalizers.Sequence(steps)
    return tokenizer


def note_prompts(folder: Path) -> list[str]:
    """Words that sentence-transformers puts before texts: by itself, or when asked for them by name."""
    said = read_json(folder / PROMPTS) if (folder / PROMPTS).is_file() else {}
    prompts, usual = said.get("prompts") or {}, said.get("default_prompt_name")
    shown = ", ".join(f"{name}: «{text}»" for name, text in prompts.items() if text)
    by_itself = f", and {usual!r} by itself" if usual else ""
    return [f"{PROMPTS}: what may stand before a text is not put there{by_itself}; write it before yours: {shown}"] if shown else []


def longest(folder: Path) -> int | None:
    """How many tokens of a text its maker lets the encoder read, where that is said."""
    found = read_json(folder / LENGTH).get("max_seq_length") if (folder / LENGTH).is_file() else None
    return found if isinstance(found, int) and found > 0 else None
