"""A run as a Hugging Face folder: weights and configuration in the family's words, tokenizer, customs, a model card.

    config.json  model.safetensors  tokenizer.json  tokenizer_config.json  special_tokens_map.json  generation_config.json  README.md

What the family has no words for is refused in one line, before anything is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Rust
from tokenizers import processors

from attentif.errors import ConfigError, UsageError
from attentif.files import write_json, write_text
from attentif.hub.deduce import deduced
from attentif.hub.folder import write_folder
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.generation import written
from attentif.hub.openings import write_opening
from attentif.hub.pooling import write_pooling
from attentif.hub.sounds import write_features
from attentif.hub.tokenizer_files import write_tokenizer_files, write_two_tokenizers
from attentif.models import Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.heads.embed import EmbedHeadConfig
from attentif.tasks.language.language import LanguageConfig
from attentif.tasks.sound.speech import SpeechConfig
from attentif.tasks.task import Tokenizers
from attentif.tasks.writing.seq2seq import Seq2SeqConfig
from attentif.text import Tokenizer
from attentif.text.chat_template import ChatTemplate
from attentif.training.config import KeptConfig
from attentif.training.model_card import model_card
from attentif.training.rundir import EXPORT, RunFolder, create, read_results, refuse_existing

TWO_TOKENIZERS = "marian"  # the family that has one for each side
NO_LIMIT = 10**30  # what transformers writes where a text may be of any length
LINEAR = "a linear model has a part in its answers"
ELSEWHERE = {  # keys of a task by which more than the network answers: without it the scores of the run would not hold
    "evidence": LINEAR,
    "blend": LINEAR,
    "match": "the model reads beside each token whether question and passage both have it",
}


@dataclass(frozen=True)
class Exported:
    """What was written, and where."""

    path: Path
    family: str
    architecture: str


def export_run(
    run: RunFolder, config: KeptConfig, model: Model, tokenizers: Tokenizers, out: Path, *, family: str | None = None, force: bool = False
) -> Exported:
    """Write a run as a folder that transformers loads as it is."""
    refuse_existing(out, force, EXPORT)
    if out.resolve() == run.path.resolve():
        raise UsageError("is the run itself; choose another place", file=out)
    tokenizer = framed_for(config, tokenizers.get("tokenizer"))
    special = special_ids(config, tokenizer)
    labels = list(getattr(config.task, "labels", []))
    refuse_help(run, config, model.config, labels)
    likely = config.made.family if config.made is not None else None
    kind, head = deduced(model.config, family=family, likely=likely, labels=labels, special=special)
    if "target" in tokenizers and kind.kind != TWO_TOKENIZERS:
        one = f"a {kind.kind} of Hugging Face has one tokenizer, and this run has one for each side (task.separate_vocab)"
        raise ConfigError(f"{one}; only {TWO_TOKENIZERS} has two")

    def fill(path: Path) -> None:
        more: dict[str, Any] = special | ({"problem_type": "multi_label_classification"} if getattr(config.task, "several", False) else {})
        write_folder(path, model, family=kind.kind, architecture=head.architecture, labels=labels, special=more)
        if tokenizer is not None and "target" in tokenizers:
            write_two_tokenizers(path, tokenizer, tokenizers["target"], max_len=longest_text(config, model))
        elif tokenizer is not None:
            chat = ChatTemplate.from_folder(run.path)
            limits = {"segments": segments_of(model), "max_len": longest_text(config, model)}
            write_tokenizer_files(path, tokenizer, family=kind.kind, **limits, chat_template=None if chat is None else chat.source)
        if generation := generation_config(config, model, tokenizer, special):
            write_json(path / GENERATION, generation)
        if isinstance(config.task, SpeechConfig):
            features = config.task.features
            write_features(path, features.model_dump() | {"fft": features.sizes()["fft"]})
        if isinstance(model.config.head, EmbedHeadConfig):
            write_pooling(path, model.config.head, model.config.width)
        write_text(path / "README.md", model_card(config, model, kind.kind, head.architecture, read_results(run)))

    create(out, out.name, fill, force=force, kind=EXPORT)
    return Exported(out, kind.kind, head.architecture)


def refuse_help(run: RunFolder, config: KeptConfig, model: ModelConfig, labels: Sequence[str]) -> None:
    """Without what helps the network of a run to answer, it would answer otherwise, under the scores of both."""
    if model.members > 1:
        raise ConfigError("model.members: no family at Hugging Face is an average of several networks; train one", file=run.config)
    helped = [key for key in ELSEWHERE if getattr(config.task, key, False)]
    if not helped:
        return
    way_out = "train with " + " ".join(f"task.{key}=false" for key in helped)
    alone = model.changed(frontend=model.frontend.changed(evidence=None)) if isinstance(model.frontend, TokensConfig) else model
    try:
        deduced(alone, labels=labels)
    except ConfigError as error:  # said now, or a second training would end in a second refusal
        way_out += f", and with another model: {error}"
    why = f"{ELSEWHERE[helped[0]]}, and no family at Hugging Face has a place for that"
    raise ConfigError(f"task.{helped[0]}: {why}; {way_out}", file=run.config)


def framed_for(config: KeptConfig, tokenizer: Tokenizer | None) -> Tokenizer | None:
    """The tokenizer, its file saying what this task puts around a text: other programs know no task."""
    if tokenizer is None:
        return None
    task, name = config.task, lambda part: str(tokenizer.rust.id_to_token(tokenizer.special[part]))
    if isinstance(task, LanguageConfig) and task.prompt == "eos":
        single, pair = f"{name('eos')} $A", f"{name('eos')} $A {name('eos')} $B"
    elif isinstance(task, Seq2SeqConfig) and not task.start:
        single, pair = f"$A {name('eos')}", f"$A $B {name('eos')}"
    else:
        return tokenizer
    rust = Rust.from_str(tokenizer.rust.to_str())
    rust.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(name("eos"), tokenizer.eos)])
    return Tokenizer(rust, tokenizer.special, tokenizer.ends)


def special_ids(config: KeptConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The ids of config.json: {"pad_token_id": 0}."""
    if tokenizer is None:
        return {}
    ids: dict[str, Any] = {f"{part}_token_id": tokenizer.special[part] for part in ("pad", "bos", "eos") if part in tokenizer.special}
    if "eos" in tokenizer.special and len(tokenizer.ends) > 1:
        ids["eos_token_id"] = sorted(tokenizer.ends)
    if isinstance(config.task, Seq2SeqConfig):
        start = [tokenizer.id_of(token) for token in config.task.start] or [tokenizer.bos]
        ids |= dict(zip(("decoder_start_token_id", "forced_bos_token_id"), start, strict=False))
    if isinstance(config.task, SpeechConfig) and config.task.objective == "seq2seq":
        opening = config.task.opening
        ids["decoder_start_token_id"] = tokenizer.bos if opening is None else tokenizer.id_of(opening.first[0])
    return ids


def segments_of(model: Model) -> int:
    """How many texts its embedding tells apart."""
    frontend = model.config.frontend
    return frontend.segments if isinstance(frontend, TokensConfig) else 0


def longest_text(config: KeptConfig, model: Model) -> int:
    """In tokens, by the model and by its task."""
    most = model.config.max_target_len if isinstance(config.task, SpeechConfig) else model.config.max_len
    limits = (NO_LIMIT, most, getattr(config.task, "max_len", None), getattr(config.task, "context", None))
    return min(limit for limit in limits if limit)


def generation_config(config: KeptConfig, model: Model, tokenizer: Tokenizer | None, special: Mapping[str, Any]) -> dict[str, Any]:
    """How it writes, where it does."""
    task = config.task
    if tokenizer is not None and isinstance(task, SpeechConfig) and task.objective == "seq2seq":
        options = ({"beams": task.beams} if task.beams > 1 else {}) | task.limits.model_dump(exclude_defaults=True)
        opening = {} if task.opening is None else write_opening(task.opening.model_dump(), tokenizer)
        most = {"max_length": task.max_tokens or model.config.max_target_len}  # transformers would stop after twenty
        return {**special} | written(options, (), special.get("eos_token_id")) | opening | most
    if tokenizer is None or not isinstance(task, LanguageConfig | Seq2SeqConfig):
        return {}
    if isinstance(task, LanguageConfig):
        options, start = {} if task.decode is None else task.decode.model_dump(exclude_defaults=True), []
    else:
        start = task.start
        chosen = {"beams": task.beams, "length_penalty": task.length_penalty, "early_stopping": task.early_stopping}
        options = (chosen if task.beams > 1 else {}) | ({"max_tokens": task.max_tokens} if task.max_tokens else {})
        options |= task.limits.model_dump(exclude_defaults=True)
    return {**special, **written(options, start, special.get("eos_token_id"))}
