"""The model that another one starts from: `model.from = "runs/x"`, a Hugging Face folder, or a model's name there.

    kept      the tokenizers, the configuration and the weights of frontend and stacks, the customs of an imported model's texts
    changed   the head, which is the task's; its weights are kept too where task, labels and head are the same as those of the run

Its values lie beneath those given beside `from`, as a preset's beneath those given beside `base`. Every tensor is accounted for:
what it has no weight for, or a weight of another shape, is refused before any data are read, unless it belongs to a fresh head.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attentif.config import Layer, to_toml
from attentif.errors import AttentifError, ConfigError, RunError
from attentif.hub import FAMILIES
from attentif.hub.files import Tensors
from attentif.hub.source import folder_of
from attentif.hub.weights import weight_files
from attentif.models import ModelConfig, build
from attentif.models.heads import TokensHeadConfig
from attentif.tasks.base import TASKS, TaskState, Tokenizers
from attentif.text import TokenizerConfig
from attentif.training.config import RunConfig, StoredConfig
from attentif.training.imported import is_foreign, open_folder
from attentif.training.manifest import combine_sha256
from attentif.training.rundir import RunFolder
from attentif.training.stored_config import read_config_layer, read_run_config, read_state
from attentif.training.weights import pieces_of, present_names

Shape = tuple[int, ...]
HEAD = "head."
FEATURES = "frontend.features."  # of tokens: what one task gives, another may not
WRITERS = ("text-to-text", "translate", "summarise")
# keys of a task that say how the base model is used to be spoken to, whatever it is asked; and, asked the same, how it answers
CUSTOMS = ("start", "prompt", "mean", "std", "fit", "features", "opening")
ANSWERS = ("objective", "limits", "max_tokens")


@dataclass(frozen=True)
class BackboneLayer(Layer):
    """The values of a run that another begins with."""

    tokenizer: TokenizerConfig | None = None


def make_backbone_layer(source: Layer, run: StoredConfig, task: Any) -> BackboneLayer:
    """What a run of task `task` takes from the `config.toml` of another run."""
    head = run.model.head
    if answers_alike(run, task):
        values = {key: value for key, value in source.values["model"]["head"].items() if key not in head.from_data}
    else:
        values = family_head(run, task) or TokensHeadConfig().model_dump()  # what every task knows how to change into its own
    kept = {"tokenizer": source.values["tokenizer"]} if run.tokenizer is not None else {}
    known = TASKS[task].model_fields if isinstance(task, str) and task in [*TASKS] else {}
    usual = (*CUSTOMS, *(ANSWERS if run.task.kind == task else ()))
    if customs := {key: value for key, value in source.values["task"].items() if key in usual and key in known}:
        kept["task"] = {"kind": task} | customs
    model = {key: value for key, value in source.values["model"].items() if key != "tower" or values.get("similarity")}
    return BackboneLayer({"model": model | {"head": values}, **kept}, source.name, source.text, run.tokenizer)


def answers_alike(run: StoredConfig, task: Any) -> bool:
    """Whether a head of this task can be that of the other: of an imported model, whatever writes texts from texts."""
    if run.task.kind == task:
        return True
    return run.made is not None and run.made.family is not None and {run.task.kind, task} <= {*WRITERS}


def family_head(run: StoredConfig, task: Any) -> dict[str, Any]:
    """The head of the family for this task, if it has one: the run can then be exported to that family."""
    kind = run.made.family if run.made is not None else None
    if kind not in FAMILIES:
        return {}
    heads = [head for form in (FAMILIES[kind], *FAMILIES[kind].others) for head in form.heads if head.task == task]
    return {key: value for key, value in heads[0].head.items() if value is not None} if heads else {}


def encoder_alone(model: ModelConfig) -> ModelConfig:
    """The encoder of an encoder-decoder, for tasks of one stack."""
    return model.replace(decoder=None, target=None, bridge=(), shared=False, head=TokensHeadConfig())


class FirstNetwork(Mapping[str, Tensor]):
    """The tensors of a run's only network, or of the first of its ensemble, under its own names."""

    def __init__(self, stored: Mapping[str, Tensor]) -> None:
        names = present_names(stored)
        prefix = "members.0." if any(name.startswith("members.0.") for name in names) else ""
        self.stored = stored
        self.names = {name.removeprefix(prefix): own for name, own in names.items() if name.startswith(prefix)}

    def __getitem__(self, name: str) -> Tensor:
        return self.stored[self.names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Backbone:
    """A model whose weights initialise another."""

    path: Path
    layer: Layer  # its configuration, and where that stands
    config: StoredConfig
    weights: Mapping[str, Tensor]  # by our names, mapped from files
    files: tuple[Path, ...]
    found: Tokenizers | None = None  # of a Hugging Face folder; a run's are in its folder

    @classmethod
    def of(cls, source: str | Path) -> "Backbone":
        """An existing run with weights (a checkpoint's will do), or a Hugging Face folder."""
        path = folder_of(source)
        if is_foreign(path):
            opened = open_folder(path, str(source))
            layer = Layer(tomllib.loads(to_toml(opened.config)), str(path))
            return cls(path, layer, opened.config, opened.model.state_dict(), tuple(weight_files(path)), opened.tokenizers)
        folder = RunFolder.open(path)
        layer = read_config_layer(folder.config)
        if "fit" in layer.values:
            raise RunError("was fitted, not trained by gradient: it has no base model to start from", file=path)
        if "adapt" in layer.values:
            raise RunError(f"has only adapters; merge them with their base first: attentif merge {source} OUT", file=path)
        folder.verify()
        file = folder.latest_weights()
        if len(files := pieces_of(file)) > 1 and not folder.sealed:
            raise RunError("is not finished, and its weights are sharded over several processes: finish it first", file=path)
        return cls(path, layer, read_run_config(path), FirstNetwork(Tensors(file.parent)), tuple(files))

    @cached_property
    def digest(self) -> str:
        return combine_sha256(self.files)

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Of every tensor; nothing of it is read."""
        return {name: tuple(tensor.shape) for name, tensor in self.weights.items()}

    def state(self) -> TaskState:
        """What its training data taught its task."""
        return read_state(self.path, self.config.task.build(), self.layer)

    def tokenizers(self) -> Tokenizers:
        return RunFolder(self.path).tokenizers(self.config.tokenizer) if self.found is None else self.found

    def check(self, model: ModelConfig) -> None:
        """Refuse, before any data are read, a base model that these weights do not fit."""
        self._match_tensors(build(model.with_any_size(), device="meta"), fresh_head=True)

    def copy_into(self, model: nn.Module, *, fresh_head: bool) -> str:
        """Copy the weights into a model; what was taken and what was not, in words."""
        taken = self._match_tensors(model, fresh_head)
        own = model.state_dict()
        with torch.no_grad():
            for name in taken:
                own[name].copy_(self.weights[name])
            fresh = [name for name in own if name not in taken]
            for name in fresh:
                if name.startswith(FEATURES):
                    own[name].zero_()  # the base model begins as it was
        left = sorted({name.split(".")[0] for name in self.shapes if name not in taken})
        words = [f"{len(taken)} tensors of {self.path}"]
        words += [f"{len(fresh)} fresh ones ({', '.join(fresh[:4])}{', ...' if len(fresh) > 4 else ''})"] if fresh else []
        words += [f"its {' and '.join(left)} left out"] if left else []
        return "the model begins with " + ", ".join(words)

    def _match_tensors(self, model: nn.Module, fresh_head: bool) -> list[str]:
        """The names of the tensors that the model takes from here; all others are its head's, or read what this base was never given."""
        own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        fresh = lambda name: (fresh_head and name.startswith(HEAD)) or (name.startswith(FEATURES) and name not in self.shapes)
        wanted = [name for name in own if not fresh(name)]
        for name in wanted:
            here = f"{own[name]} here"
            if name not in self.shapes:
                raise ConfigError(f"model.from: {self.path} has no tensor {name} ({here}); leave out the key that asks for it")
            if self.shapes[name] != own[name]:
                raise ConfigError(f"model.from: {name} is {self.shapes[name]} in {self.path} and {here}; leave out the key that changes it")
        parts = {name.split(".")[0] for name in own}
        unused = [name for name in self.shapes if name not in own and name.split(".")[0] in parts and not name.startswith(HEAD)]
        if unused:
            raise ConfigError(
                f"model.from: {self.path} has a tensor {unused[0]} that this model does not use; leave out the key that drops it"
            )
        return wanted


def has_same_head(own: RunConfig, state: TaskState | None, other: Backbone) -> bool:
    """Whether a head that learned the one task answers the other: the same outputs, by the same names."""
    labels = [getattr(given, "labels", None) for given in (state, other.state())]
    return answers_alike(other.config, own.task.kind) and own.model.head == other.config.model.head and labels[0] == labels[1]


def find_backbone(config: RunConfig) -> Backbone | None:
    """The model that this run begins with, if any."""
    if config.model.from_ is None:
        return None
    try:
        return Backbone.of(config.model.from_)
    except AttentifError as error:
        raise ConfigError(f"model.from: {error}") from None
