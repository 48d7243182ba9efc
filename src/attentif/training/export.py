"""A run as a Hugging Face folder: weights and configuration under the family's names, tokenizer, decoding options, a model card.

    config.json  model.safetensors  tokenizer.json  tokenizer_config.json  special_tokens_map.json  generation_config.json  README.md

What the family cannot represent is refused in one line, before anything is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.errors import ConfigError, UsageError
from attentif.files import write_json, write_text
from attentif.hub.deduce import deduce_family
from attentif.hub.folder import pools_by_files, write_folder
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.pictures import write_pictures
from attentif.hub.pooling import write_pooling
from attentif.hub.sounds import write_features
from attentif.hub.task_files import count_segments, frame_tokenizer, generation_config, longest_text, special_ids
from attentif.hub.tokenizer_files import write_tokenizer_files, write_two_tokenizers
from attentif.models import Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.frontends.patches import PatchesConfig
from attentif.models.heads.embed import EmbedHeadConfig
from attentif.tasks.base import TaskState, Tokenizers
from attentif.text.chat_template import ChatTemplate
from attentif.training.config import StoredConfig
from attentif.training.model_card import model_card
from attentif.training.rundir import EXPORT, RunFolder, create, read_results, refuse_existing

TWO_TOKENIZERS = "marian"  # the family that has one for each side
LINEAR = "a linear model has a part in its answers"
ELSEWHERE = {  # keys of a task by which more than the network answers: without it the scores of the run would not hold
    "linear": (LINEAR, "none"),  # `--network-alone` leaves it out
    "match": ("the model reads beside each token whether question and passage both have it", "false"),
}


@dataclass(frozen=True)
class Exported:
    """What was written, and where."""

    path: Path
    family: str
    architecture: str
    caveat: str = ""  # what the run does to the network's answers, and the export does not


def export_run(
    run: RunFolder,
    config: StoredConfig,
    state: TaskState,
    model: Model,
    tokenizers: Tokenizers,
    out: Path,
    *,
    family: str | None = None,
    note: str = "",
    force: bool = False,
) -> Exported:
    """Write a run as a folder that transformers loads as it is; `note` says what the caller left out."""
    refuse_existing(out, force, EXPORT)
    if out.resolve() == run.path.resolve():
        raise UsageError("is the run itself; choose another place", file=out)
    caveat = "; ".join(part for part in (note, config.task.build().caveat(model, state)) if part)
    tokenizer = frame_tokenizer(config.task, tokenizers.get("tokenizer"))
    special = special_ids(config.task, tokenizer)
    labels = list(getattr(state, "labels", []))
    refuse_help(run, config, model.config, labels)
    try:
        kind, head = deduce_family(model.config, family=family, **likely_class(config), labels=labels, special=special)
    except ConfigError as error:
        raise ConfigError(f"{error.message}{_other_ways(labels)}", file=run.config) from None
    origin = None if config.made is None else config.made.origin
    limits = {} if origin is None else origin.limits
    sides = {} if origin is None else origin.model_dump(include={"padding_side", "truncation_side"}, exclude_none=True)
    longest = longest_text(config.task, model.config, None if config.train is not None else origin)
    if "target" in tokenizers and kind.kind != TWO_TOKENIZERS:
        one = f"a {kind.kind} of Hugging Face has one tokenizer, and this run has one for each side (task.separate_vocab)"
        raise ConfigError(f"{one}; only {TWO_TOKENIZERS} has two")

    def fill(path: Path) -> None:
        more: dict[str, Any] = special | ({"problem_type": "multi_label_classification"} if getattr(config.task, "several", False) else {})
        write_folder(path, model, family=kind.kind, architecture=head.architecture, labels=labels, special=more, limits=limits)
        if tokenizer is not None and "target" in tokenizers:
            write_two_tokenizers(path, tokenizer, tokenizers["target"], max_len=longest)
        elif tokenizer is not None:
            chat = ChatTemplate.from_folder(run.path)
            said: dict[str, Any] = {"segments": count_segments(model.config), "max_len": longest, "sides": sides}
            write_tokenizer_files(path, tokenizer, family=kind.kind, **said, chat_template=None if chat is None else chat.source)
        if generation := generation_config(config.task, model.config, tokenizer, special):
            write_json(path / GENERATION, generation)
        if (features := getattr(config.task, "features", None)) is not None:
            features = features.replace(rate=getattr(state, "rate", None))
            write_features(path, features.model_dump() | {"fft": features.sizes()["fft"]})
        frontend = (model.config.tower or model.config).frontend
        standardised: Any = state if hasattr(state, "mean") else config.task
        if isinstance(frontend, PatchesConfig) and hasattr(standardised, "mean"):
            _, height, width = frontend.known_size()
            write_pictures(path, config.task, standardised.mean, standardised.std, height, width)
        if isinstance(model.config.head, EmbedHeadConfig) and pools_by_files(model.config.model_dump()):
            write_pooling(path, model.config.head, model.config.width, longest_text(config.task, model.config))
        write_text(path / "README.md", model_card(config, labels, model, kind.kind, head.architecture, read_results(run), caveat))

    create(out, out.name, fill, force=force, kind=EXPORT)
    return Exported(out, kind.kind, head.architecture, caveat)


def helpers(config: StoredConfig) -> list[str]:
    """Keys of the task that make answers depend on more than the network."""
    return [key for key in ELSEWHERE if getattr(config.task, key, False) not in (False, "none")]


def _ways_out(helped: Sequence[str]) -> str:
    alone = "export the network alone with --network-alone, or " if helped == ["linear"] else ""
    return alone + "train with " + " ".join(f"task.{key}={ELSEWHERE[key][1]}" for key in helped)


def _other_ways(labels: Sequence[str]) -> str:
    """What to do with a model that has no family."""
    other = "; train with model.base=modernbert-tiny for a classifier that has a family, or" if labels else ";"
    return f"{other} --to onnx needs no family"


def check_stands_alone(run: RunFolder, config: StoredConfig) -> None:
    """Refuse a run whose answers depend on more than the network, whatever the format."""
    if helped := helpers(config):
        raise ConfigError(
            f"task.{helped[0]}: {ELSEWHERE[helped[0]][0]}, and the export holds the network; {_ways_out(helped)}", file=run.config
        )


def likely_class(config: StoredConfig) -> dict[str, str | None]:
    """The family and the class that the run was imported from, or begun with."""
    made = config.made
    return {} if made is None else {"likely": made.family, "architecture": None if made.origin is None else made.origin.architecture}


def refuse_help(run: RunFolder, config: StoredConfig, model: ModelConfig, labels: Sequence[str]) -> None:
    """Refuse to export the network alone: its answers would differ from those that were scored."""
    if config.train is not None and config.train.ensemble > 1:
        raise ConfigError("train.ensemble: no family at Hugging Face is an average of several networks; train one", file=run.config)
    helped = helpers(config)
    if not helped:
        return
    way_out = _ways_out(helped)
    alone = model.replace(frontend=model.frontend.replace(features=None)) if isinstance(model.frontend, TokensConfig) else model
    try:
        deduce_family(alone, labels=labels)
    except ConfigError as error:  # said now, or a second training would end in a second refusal
        way_out = f"{error.message}{_other_ways(labels)}"
    why = f"{ELSEWHERE[helped[0]][0]}, and no family at Hugging Face has a place for that"
    raise ConfigError(f"task.{helped[0]}: {why}; {way_out}", file=run.config)
