"""The body of another run: what `model.from = "runs/x"` begins with.

    kept      the tokenizers, the configuration and the weights of frontend and stacks
    changed   the head, which is the task's; its weights are kept too where task, labels and head are the same as those of the run

The run's values lie beneath those given beside `from`, as a preset's beneath those given beside `base`. Every tensor is accounted for:
what the run has no weight for, or a weight of another shape, is refused before any data are read, unless it belongs to a fresh head.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from attentif.config import Layer
from attentif.errors import AttentifError, ConfigError, RunError
from attentif.models import ModelConfig, build
from attentif.models.heads import TokensHeadConfig
from attentif.tasks.task import Tokenizers
from attentif.text import TokenizerConfig
from attentif.train.checkpoint import sha256
from attentif.train.config import RunConfig
from attentif.train.rundir import RunFolder

Shape = tuple[int, ...]
HEAD = "head."


@dataclass(frozen=True)
class BodyLayer(Layer):
    """The values of a run that another begins with."""

    tokenizer: TokenizerConfig | None = None


def body_layer(source: Layer, run: RunConfig, task: Any) -> BodyLayer:
    """What a run of the kind of task `task` takes from the `config.toml` of another."""
    head = run.model.head
    if run.task.kind == task:
        values = {key: value for key, value in source.values["model"]["head"].items() if key not in head.from_data}
    else:
        values = TokensHeadConfig().model_dump()  # what every task knows how to change into its own
    kept = {"tokenizer": source.values["tokenizer"]} if run.tokenizer is not None else {}
    return BodyLayer({"model": source.values["model"] | {"head": values}, **kept}, source.name, source.text, run.tokenizer)


def encoder_alone(model: ModelConfig) -> ModelConfig:
    """What is left of an encoder-decoder where a task reads with one stack."""
    return model.changed(decoder=None, target=None, bridge=(), shared=False, head=TokensHeadConfig())


@dataclass(frozen=True)
class Body:
    """A run whose weights another begins with."""

    folder: RunFolder
    weights: Path

    @classmethod
    def of(cls, run: str | Path) -> "Body":
        """An existing run that has weights, if only those of a checkpoint."""
        folder = RunFolder.open(Path(run))
        return cls(folder, folder.latest_weights())

    @cached_property
    def digest(self) -> str:
        return sha256(self.weights)

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Of every tensor, read from the file's head."""
        try:
            with safe_open(self.weights, "pt") as file:
                return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, OSError) as error:
            raise RunError(f"these weights cannot be used: {error}", file=self.weights) from None

    def tokenizers(self) -> Tokenizers:
        return self.folder.tokenizers(needed=False)

    def check(self, model: ModelConfig) -> None:
        """Refuse, before any data are read, a body that these weights do not fit."""
        self._taken(build(model.with_any_size(), device="meta"), fresh_head=True)

    def give(self, model: nn.Module, *, fresh_head: bool) -> str:
        """Copy the weights into a model; what was taken and what was not, in words."""
        taken = self._taken(model, fresh_head)
        own = model.state_dict()
        with torch.no_grad(), safe_open(self.weights, "pt") as file:
            for name in taken:
                own[name].copy_(file.get_tensor(name))
        fresh = [name for name in own if name not in taken]
        left = sorted({name.split(".")[0] for name in self.shapes if name not in taken})
        words = [f"{len(taken)} tensors of {self.folder.path}"]
        words += [f"{len(fresh)} fresh ones ({', '.join(fresh[:4])}{', ...' if len(fresh) > 4 else ''})"] if fresh else []
        words += [f"its {' and '.join(left)} left out"] if left else []
        return "the model begins with " + ", ".join(words)

    def _taken(self, model: nn.Module, fresh_head: bool) -> list[str]:
        """The names of the tensors that the model takes from here; all others are its head's."""
        own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        wanted = [name for name in own if not (fresh_head and name.startswith(HEAD))]
        for name in wanted:
            here = f"{own[name]} here"
            if name not in self.shapes:
                raise ConfigError(f"model.from: {self.folder.path} has no tensor {name} ({here}); leave out the key that asks for it")
            if self.shapes[name] != own[name]:
                raise ConfigError(
                    f"model.from: {name} is {self.shapes[name]} in {self.folder.path} and {here}; leave out the key that changes it"
                )
        parts = {name.split(".")[0] for name in own}
        unused = [name for name in self.shapes if name not in own and name.split(".")[0] in parts and not name.startswith(HEAD)]
        if unused:
            raise ConfigError(
                f"model.from: {self.folder.path} has a tensor {unused[0]} that this model does not use; leave out the key that drops it"
            )
        return wanted


def has_same_head(own: RunConfig, other: RunConfig) -> bool:
    """Whether a head that learned the one task answers the other: the same outputs, by the same names."""
    labels = [getattr(config.task, "labels", None) for config in (own, other)]
    return own.task.kind == other.task.kind and own.model.head == other.model.head and labels[0] == labels[1]


def body_of(config: RunConfig) -> Body | None:
    """The run that this one begins with, if any."""
    if config.model.from_ is None:
        return None
    try:
        return Body.of(config.model.from_)
    except AttentifError as error:
        raise ConfigError(f"model.from: {error}") from None
