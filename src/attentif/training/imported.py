"""A Hugging Face folder as a run, for the task of its head (`hub/task_values.py`).

Opened, it is used in place: nothing is written, and its weights are mapped from its files. Imported, it is a run folder.
"""

from dataclasses import dataclass
from pathlib import Path

from attentif.config import to_toml
from attentif.errors import ConfigError, RunError
from attentif.files import write_text
from attentif.hub import Imported, read_folder
from attentif.hub.files import CONFIG
from attentif.hub.folder import refuse_malformed
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.origin import read_origin
from attentif.hub.stream import write_stream
from attentif.hub.task_values import NO_TOKENIZER, list_notes, read_task
from attentif.hub.weights import weight_files
from attentif.models import Model
from attentif.models.frontends.pictures import PictureConfig
from attentif.tasks.base import TASKS, Say, TaskConfig, TaskState, Tokenizers
from attentif.tasks.states import save_state
from attentif.text.chat_template import FILE as CHAT
from attentif.text.chat_template import ChatTemplate
from attentif.text.kinds import Given
from attentif.training.config import MadeConfig, OriginConfig, StoredConfig
from attentif.training.manifest import combine_sha256
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.version import __version__


@dataclass(frozen=True)
class Opened:
    """A model ready for use, with its task and tokenizers."""

    config: StoredConfig
    state: TaskState
    model: Model
    tokenizers: Tokenizers
    notes: list[str]


def is_foreign(path: Path) -> bool:
    """Whether this is a Hugging Face folder, and not a run."""
    return not (path / "config.toml").is_file() and (path / CONFIG).is_file()


def open_folder(folder: Path, name: str = "") -> Opened:
    """Open a Hugging Face folder in place; `name` is shown to the user."""
    found = read_folder(folder)
    task = build_task(folder, found)
    built = task.build()
    state = built.migrate_state(folder, {**task.model_dump(), **built.imported_state})
    tokenizers = {key: own for key, own in (("tokenizer", found.tokenizer), ("target", found.target)) if own is not None}
    if built.needs_tokenizer and not tokenizers and not isinstance(found.model.config.frontend, PictureConfig):
        raise RunError(NO_TOKENIZER, file=folder)
    config = StoredConfig(
        task=task,
        tokenizer=Given.from_tokenizer(tokenizers["tokenizer"]) if tokenizers else None,
        model=found.model.config,
        made=MadeConfig.of(name or str(folder), family=found.family.kind, origin=OriginConfig(**read_origin(folder, found))),
    )
    return Opened(config, state, found.model, tokenizers, list_notes(folder, found, task.model_dump()))


def build_task(folder: Path, found: Imported) -> TaskConfig:
    """The task of the head; RunError if no task fits the model."""
    values = read_task(folder, found)
    unknown = RunError(f"{found.head.architecture} is for no task here; attentif.hub.read_folder gives the model alone", file=folder)
    if values is None:
        raise unknown
    with refuse_malformed(folder / GENERATION):
        task = TASKS[values["kind"]].model_validate(values)
    try:
        task.build().check(found.model.config)
    except ConfigError:  # a task of one stack, by a model of two
        raise unknown from None
    return task


def import_folder(folder: Path, out: Path | None, *, name: str, force: bool = False, say: Say) -> RunFolder:
    """Make a run folder of a Hugging Face folder: model, tokenizers, task, chat template."""
    refuse_existing(out, force)
    opened = open_folder(folder, name)
    for note in opened.notes:
        say(note)
    assert opened.config.made is not None
    config = opened.config.replace(made=opened.config.made.replace(weights=combine_sha256(weight_files(folder))))

    def fill(path: Path) -> None:
        write_text(path / "config.toml", to_toml(config))
        save_state(path, opened.state)
        save_tokenizers(path, opened.tokenizers)
        if (chat := ChatTemplate.from_folder(folder)) is not None:
            write_text(path / CHAT, chat.source)
        weights = opened.model.state_dict()
        write_stream(path / "model.safetensors", weights, weights.items())
        write_text(path / "README.md", readme(config, opened.model))

    return create(out, Path(name).name, fill, force=force, seal=True)


def readme(config: StoredConfig, model: Model) -> str:
    made, size = config.made, sum(model.sizes().values())
    assert made is not None
    return f"""# {Path(made.recipe).name}

A model of the family `{made.family}` for the task `{config.task.kind}`, {size:,} parameters.
Imported from `{made.recipe}` by Attentif {__version__}; its training data are not known here.

    attentif predict . "..."        # or generate, maps, evaluate --data FILE
    attentif train RECIPE --data FILE model.from=.
    attentif export . --to hf DIR
"""
