"""A Hugging Face folder as a run: the task that its head is for, with the customs of its maker.

    customs   what stands around a text: the tokenizer's own frame · how an answer begins and ends · the names of the classes ·
              how long a text may be · how it draws or searches (generation_config.json)

Opened, it is used from where it lies: nothing is written, and its weights are mapped from its files. Imported, it is a run folder.
"""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attentif.config import to_toml
from attentif.decode.limits import Limits
from attentif.errors import ConfigError, RunError
from attentif.files import write_text
from attentif.hub import Imported, read_folder
from attentif.hub.files import CONFIG, read_json, weight_files
from attentif.hub.folder import understood
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.openings import most_tokens, read_opening
from attentif.hub.pooling import longest
from attentif.hub.sounds import read_features
from attentif.hub.stream import write_stream
from attentif.models import Model
from attentif.models.frontends import TokensConfig
from attentif.tasks.labels.classify import ClassifyConfig
from attentif.tasks.language.language import LanguageConfig, generate_options
from attentif.tasks.pictures.image import ImageConfig
from attentif.tasks.pretraining.masked import MaskedConfig
from attentif.tasks.pretraining.replaced import ReplacedConfig
from attentif.tasks.sound.speech import SpeechConfig
from attentif.tasks.spotting.answer import AnswerConfig
from attentif.tasks.spotting.tag import TagConfig
from attentif.tasks.task import Say, TaskConfig, Tokenizers
from attentif.tasks.vectors.embed import EmbedConfig
from attentif.tasks.writing.text_to_text import TextToTextConfig
from attentif.text.chat_template import FILE as CHAT
from attentif.text.chat_template import ChatTemplate
from attentif.text.kinds import Given
from attentif.training.config import FORMAT, KeptConfig, MadeConfig
from attentif.training.manifest import combine_sha256
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.version import __version__

USUAL = 512  # tokens of a text, where nobody sets a limit
PASSAGE = 384  # tokens of a question and a part of its passage, as SQuAD's models were trained
PICTURES = "preprocessor_config.json"
READING = ("image", "speech")  # tasks that read no text
NO_TOKENIZER = "has no tokenizer: tokenizer.json, or the vocabulary files of its class, are needed"


@dataclass(frozen=True)
class Opened:
    """A model that is ready to be used, and what goes with it."""

    config: KeptConfig
    model: Model
    tokenizers: Tokenizers
    notes: list[str]


def is_foreign(path: Path) -> bool:
    """Whether this is a Hugging Face folder, and not a run."""
    return not (path / "config.toml").is_file() and (path / CONFIG).is_file()


def open_folder(folder: Path, name: str = "") -> Opened:
    """A Hugging Face folder as it lies; `name` is what its user calls it."""
    found = read_folder(folder)
    task = task_of(folder, found)
    tokenizers = {key: own for key, own in (("tokenizer", found.tokenizer), ("target", found.target)) if own is not None}
    if task.build().needs_tokenizer and not tokenizers:
        raise RunError(NO_TOKENIZER, file=folder)
    versions = {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__}
    config = KeptConfig(
        task=task,
        tokenizer=Given.of(tokenizers["tokenizer"]) if tokenizers else None,
        model=found.model.config,
        made=MadeConfig(recipe=name or str(folder), **versions, format=FORMAT, family=found.family.kind),
    )
    notes = [f"generation_config.json: {key} has no counterpart here, and is left out" for key in found.decoding.unheard]
    return Opened(config, found.model, tokenizers, [*notes, *prefixes_of(found.config)])


def import_folder(folder: Path, out: Path | None, *, name: str, force: bool = False, say: Say) -> RunFolder:
    """A run folder with the model, the tokenizers and the customs of a Hugging Face folder."""
    refuse_existing(out, force)
    opened = open_folder(folder, name)
    for note in opened.notes:
        say(note)
    assert opened.config.made is not None
    config = opened.config.changed(made=opened.config.made.changed(weights=combine_sha256(weight_files(folder))))

    def fill(path: Path) -> None:
        write_text(path / "config.toml", to_toml(config))
        save_tokenizers(path, opened.tokenizers)
        if (chat := ChatTemplate.from_folder(folder)) is not None:
            write_text(path / CHAT, chat.source)
        weights = opened.model.state_dict()
        write_stream(path / "model.safetensors", weights, weights.items())
        write_text(path / "README.md", readme(config, opened.model))

    return create(out, Path(name).name, fill, force=force, seal=True)


def readme(config: KeptConfig, model: Model) -> str:
    made, size = config.made, sum(model.sizes().values())
    assert made is not None
    return f"""# {Path(made.recipe).name}

A model of the family `{made.family}` for the task `{config.task.kind}`, {size:,} parameters.
Imported from `{made.recipe}` by Attentif {__version__}; its training data are not known here.

    attentif predict . "..."        # or generate, maps, evaluate --data FILE
    attentif train RECIPE --data FILE model.from=.
    attentif export . --to hf DIR
"""


def prefixes_of(config: Mapping[str, Any]) -> list[str]:
    """What config.json says is put before a text to ask for something: T5's "summarize: "."""
    asked = config.get("task_specific_params")
    found = [own["prefix"] for own in asked.values() if isinstance(own, dict) and own.get("prefix")] if isinstance(asked, dict) else []
    return [f"config.json: what is asked for stands before the text: {', '.join(f'«{prefix}...»' for prefix in found)}"] if found else []


# ------------------------------------------------------------------------------------------------------------------------- tasks


def task_of(folder: Path, found: Imported) -> TaskConfig:
    """The task that the head is for."""
    kind = found.head.task or ("embed" if found.head.head.get("kind") == "embed" else None)
    unknown = RunError(f"{found.head.architecture} is for no task here; attentif.hub.read_folder gives the model alone", file=folder)
    if kind is None or kind not in CUSTOMS:
        raise unknown
    reads_text = isinstance(found.model.config.frontend, TokensConfig)
    task = CUSTOMS[kind](folder, found) if reads_text or kind in READING else None
    if task is None or (kind not in READING and not task.build().needs_tokenizer):
        raise unknown
    try:
        task.build().check(found.model.config)
    except ConfigError:  # a task of one stack, by a model of two
        raise unknown from None
    return task


def _room(folder: Path, found: Imported) -> int:
    """Tokens of a text: as many as its maker says, and the model can hold."""
    said = read_json(folder / "tokenizer_config.json").get("model_max_length") if (folder / "tokenizer_config.json").is_file() else None
    limits = [said if isinstance(said, int) and said < 10**9 else None, longest(folder), found.model.config.max_len]
    return min((limit for limit in limits if limit), default=USUAL)


def _language(folder: Path, found: Imported) -> LanguageConfig:
    options = generate_options(found.decoding.options) if found.decoding.options else None
    return LanguageConfig(context=min(_room(folder, found), 2 * USUAL), prompt="frame", decode=options)


def _classify(folder: Path, found: Imported) -> ClassifyConfig:
    several = found.config.get("problem_type") == "multi_label_classification" or len(_labels(found)) == 1
    return ClassifyConfig(labels=_labels(found), several=several, pairs="either", max_len=_room(folder, found))


def _tag(folder: Path, found: Imported) -> TagConfig:
    return TagConfig(labels=_labels(found), scheme=_scheme(_labels(found)), max_len=_room(folder, found))


def _scheme(labels: list[str]) -> Any:
    """How the tags write entities: a B for each first word, or only between neighbours of one kind, or none."""
    first = {label.partition("-")[0] for label in labels if label != "O"}
    if any("-" not in label for label in labels if label != "O") or not first <= {*"BIESLU"}:
        return "none"
    return "BIOES" if first & {*"ES"} else "IOB2" if "B" in first else "IOB1"


def _answer(folder: Path, found: Imported) -> AnswerConfig:
    room = min(PASSAGE, _room(folder, found))
    return AnswerConfig(max_len=room, stride=min(128, room // 4), max_question=min(64, room // 4), impossible=False)


def _text_to_text(folder: Path, found: Imported) -> TextToTextConfig:
    tokenizer, decoding = found.target or found.tokenizer, found.decoding
    start = [] if tokenizer is None else [str(tokenizer.rust.id_to_token(token)) for token in decoding.start]
    if not start:
        raise RunError("says nowhere what the decoder begins with (decoder_start_token_id)", file=folder / CONFIG)
    heard = {key: decoding.options[key] for key in ("beams", "length_penalty", "early_stopping", "max_tokens") if key in decoding.options}
    limits = _limits(folder, found)
    return TextToTextConfig(start=start, max_len=_room(folder, found), label_smoothing=0.0, limits=limits, **heard)


def _limits(folder: Path, found: Imported) -> Limits:
    with understood(folder / GENERATION):
        return Limits(**{key: found.decoding.options[key] for key in Limits.model_fields if key in found.decoding.options})


def _image(folder: Path, found: Imported) -> ImageConfig:
    said = read_json(folder / PICTURES) if (folder / PICTURES).is_file() else {}
    frontend: Any = found.model.config.frontend
    mean, std = (tuple(map(float, said.get(key) or (0.5,) * frontend.channels)) for key in ("image_mean", "image_std"))
    sides = {"height": frontend.height, "width": frontend.width, "channels": frontend.channels}
    return ImageConfig(labels=_labels(found), **sides, fit="stretch", mean=mean, std=std)


def _speech(folder: Path, found: Imported) -> SpeechConfig:
    features = read_features(folder)
    if features is None:
        raise RunError(f"has no {PICTURES} that says how its sounds are read", file=folder)
    values: dict[str, Any] = {"features": {key: value for key, value in features.items() if value is not None}}
    if found.model.config.decoder is None:
        return SpeechConfig.model_validate(values | {"objective": "ctc"})
    if found.tokenizer is None:
        raise RunError(NO_TOKENIZER, file=folder)
    limits = _limits(folder, found).model_dump()
    with understood(folder / GENERATION):
        opening = read_opening(folder, found.config, found.tokenizer)
        heard = {"beams": found.decoding.options.get("beams", 1), "max_tokens": most_tokens(folder, found.config)}
        return SpeechConfig.model_validate(values | {"objective": "seq2seq", "opening": opening, "limits": limits} | heard)


def _labels(found: Imported) -> list[str]:
    head: Any = found.model.config.head
    return found.labels or [f"LABEL_{number}" for number in range(head.classes or 0)]


CUSTOMS: Mapping[str, Callable[[Path, Imported], TaskConfig]] = {
    "language": _language,
    "masked": lambda folder, found: MaskedConfig(context=_room(folder, found)),
    "replaced": lambda folder, found: ReplacedConfig(context=_room(folder, found)),
    "classify": _classify,
    "tag": _tag,
    "answer": _answer,
    "text-to-text": _text_to_text,
    "image": _image,
    "speech": _speech,
    "embed": lambda folder, found: EmbedConfig(max_len=_room(folder, found)),
}
