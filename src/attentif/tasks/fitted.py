"""What a fitted model reads, how it is scored and shown: as `base.py` says it for trained models.

A family of fitted models ("words", "language", "alignment") has one `FittedTask`, registered by its name.
"""

from dataclasses import dataclass, field
from typing import Any

from attentif.errors import ConfigError
from attentif.tasks.base import BaseTask, Prepared, TaskState, Tokenizers
from attentif.text.fitted import FittedConfig


@dataclass(frozen=True, slots=True)
class Examples:
    """One split, as the family's models read it."""

    name: str  # "train", "valid" or "test"
    of: Any  # what `Fitted.fit` and `score` are given
    size: int  # words, tokens or pairs
    tokenizers: Tokenizers = field(default_factory=dict)
    beside: Any = None  # what is needed to score and show it beyond that

    def __len__(self) -> int:
        return self.size


FittedData = Prepared[TaskState, Examples]


class FittedTask(BaseTask[TaskState, Examples]):
    """One family of fitted models: a task whose trainer is `Fitted.fit`."""

    config: FittedConfig


FITTED_TASKS: dict[str, type[FittedTask]] = {}


def register_fitted(family: str) -> Any:
    """Class decorator: the `FittedTask` of a family."""

    def register(cls: type[FittedTask]) -> type[FittedTask]:
        FITTED_TASKS[family] = cls
        return cls

    return register


def build_fitted(config: FittedConfig) -> FittedTask:
    if config.family not in FITTED_TASKS:
        raise ConfigError(f"fit: no family of fitted models is called {config.family!r}; there are {', '.join(FITTED_TASKS)}")
    return FITTED_TASKS[config.family](config)
