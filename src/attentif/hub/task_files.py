"""What the files of a checkpoint say of a task (`[task]` of a run): special ids, lengths, the frame around a text, decoding options.

Tasks are told apart by their keys, not by their classes: `prompt` is a language model's, `start` a decoder's that reads a source,
`opening` a transcriber's.
"""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Rust
from tokenizers import processors

from attentif.hub.generation import format_decoding
from attentif.hub.openings import write_opening
from attentif.models import ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.text import Tokenizer

NO_LIMIT = 10**30  # what transformers writes where a text may be of any length


def transcribes(task: Any) -> bool:
    """Whether the decoder of an encoder-decoder writes down what is said in a sound."""
    return getattr(task, "objective", None) == "seq2seq" and hasattr(task, "opening")


def frame_tokenizer(task: Any, tokenizer: Tokenizer | None) -> Tokenizer | None:
    """The tokenizer, its file saying what this task puts around a text: other programs know no task."""
    if tokenizer is None:
        return None
    name = lambda part: str(tokenizer.rust.id_to_token(tokenizer.special[part]))
    if getattr(task, "prompt", None) == "eos":
        single, pair = f"{name('eos')} $A", f"{name('eos')} $A {name('eos')} $B"
    elif hasattr(task, "start") and not task.start:
        single, pair = f"$A {name('eos')}", f"$A $B {name('eos')}"
    else:
        return tokenizer
    rust = Rust.from_str(tokenizer.rust.to_str())
    rust.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(name("eos"), tokenizer.eos)])
    return Tokenizer(rust, tokenizer.special, tokenizer.ends)


def special_ids(task: Any, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The ids of config.json: {"pad_token_id": 0}."""
    if tokenizer is None:
        return {}
    ids: dict[str, Any] = {f"{part}_token_id": tokenizer.special[part] for part in ("pad", "bos", "eos") if part in tokenizer.special}
    if "eos" in tokenizer.special and len(tokenizer.ends) > 1:
        ids["eos_token_id"] = sorted(tokenizer.ends)
    if hasattr(task, "start"):
        start = [tokenizer.id_of(token) for token in task.start] or [tokenizer.bos]
        ids |= dict(zip(("decoder_start_token_id", "forced_bos_token_id"), start, strict=False))
    if transcribes(task):
        ids["decoder_start_token_id"] = tokenizer.bos if task.opening is None else tokenizer.id_of(task.opening.first[0])
    return ids


def count_segments(model: ModelConfig) -> int:
    """How many texts its embedding tells apart."""
    return model.frontend.segments if isinstance(model.frontend, TokensConfig) else 0


def longest_text(task: Any, model: ModelConfig, origin: Any = None) -> int:
    """In tokens, by the model and by its task, or as the files say that it was imported from."""
    most = model.max_target_len if hasattr(task, "opening") else model.max_len
    if origin is not None:
        return int(origin.model_max_length or most or NO_LIMIT)
    limits = (NO_LIMIT, most, getattr(task, "max_len", None), getattr(task, "context", None))
    return min(limit for limit in limits if limit)


def generation_config(task: Any, model: ModelConfig, tokenizer: Tokenizer | None, special: Mapping[str, Any]) -> dict[str, Any]:
    """How it writes, where it does."""
    ends = special.get("eos_token_id")
    if tokenizer is None:
        return {}
    if transcribes(task):
        options = ({"beams": task.beams} if task.beams > 1 else {}) | task.limits.model_dump(exclude_defaults=True)
        opening = {} if task.opening is None else write_opening(task.opening.model_dump(), tokenizer)
        most = {"max_length": task.max_tokens or model.max_target_len}  # transformers would stop after twenty
        return {**special} | format_decoding(options, (), ends) | opening | most
    if hasattr(task, "prompt"):
        options = {} if task.decode is None else task.decode.model_dump(exclude_defaults=True)
        return {**special, **format_decoding(options, [], ends)}
    if hasattr(task, "start"):
        search = {"beams": task.beams, "length_penalty": task.length_penalty, "early_stopping": task.early_stopping}
        options = (search if task.beams > 1 else {}) | ({"max_tokens": task.max_tokens} if task.max_tokens else {})
        return {**special, **format_decoding(options | task.limits.model_dump(exclude_defaults=True), task.start, ends)}
    return {}
