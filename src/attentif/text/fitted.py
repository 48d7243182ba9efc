"""What is fitted rather than stepped: counted, solved, or brought to its end by a few passes over the data.

    model = FITTED["ngram"](order=5).build()
    model.fit(examples)          # what the examples are, the kind says: numbered tokens, a stream of words, pairs of sentences
    model.score(others)          # {"loss": 2.31}
    model.save(folder);  FITTED["ngram"](order=5).build().load(folder)

A fitted model of your own is a `FittedConfig` registered in a file given to `attentif --plugin`; its `family` says which data it reads
and how it is scored and shown ("words", "language", "alignment": see `attentif.tasks.fitting`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from attentif.config import Config, Registry
from attentif.errors import RunError

Watch = Callable[[str, int, int], None]  # what is being done, how far, of so much
Row = dict[str, Any]  # a line of metrics.jsonl
Arrays = dict[str, NDArray[Any]]
E = TypeVar("E")
WEIGHTS = "model.safetensors"


def unwatched(what: str, done: int, total: int) -> None:
    """Nobody looks."""


class FittedConfig(Config):
    """Base of the configuration of what is fitted: the keys of [fit] in TOML."""

    family: ClassVar[str]  # which data it reads, how it is scored and shown

    kind: str

    def build(self) -> "Fitted[Any]":
        raise NotImplementedError


FITTED: Registry[FittedConfig] = Registry("fitted model")


class Fitted(ABC, Generic[E]):
    """A model without steps of gradient: all that a run folder needs of it."""

    @abstractmethod
    def fit(self, examples: E, watch: Watch = unwatched) -> list[Row]:
        """Learn from examples; what was measured on the way, pass by pass."""

    @abstractmethod
    def score(self, examples: E) -> dict[str, float]:
        """How well it does on others."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model's files: safetensors, JSON or text, never pickle."""

    @abstractmethod
    def load(self, folder: Path) -> Self:
        """This model, as it was saved."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Numbers that it keeps, by part."""


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)  # the library makes files that only their owner reads


def load_arrays(folder: Path, *names: str) -> Arrays:
    """The arrays of a saved model, those that are named among them."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / WEIGHTS
    try:
        arrays: Arrays = load_file(file)
    except FileNotFoundError:
        raise RunError("no such file: the run is not whole", file=file) from None
    except (SafetensorError, OSError) as error:
        raise RunError(f"is damaged: {error}", file=file) from None
    if missing := [name for name in names if name not in arrays]:
        raise RunError(f"holds no {missing[0]!r}: it is another model's", file=file)
    return arrays
