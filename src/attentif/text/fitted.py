"""Models fitted without gradient steps: counted, solved, or by a few passes over the data.

    model = FITTED["ngram"](order=5).build()
    model.fit(examples)          # what the examples are, the kind says: numbered tokens, a stream of words, pairs of sentences
    model.score(others)          # {"loss": 2.31}
    model.save(folder);  FITTED["ngram"](order=5).build().load(folder)

A fitted model of your own is a `FittedConfig` registered in a file given to `attentif --plugin`; its `family` says which data it reads
and how it is scored and shown ("words", "language", "alignment": see `attentif.tasks.fitted`).
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


def no_progress(what: str, done: int, total: int) -> None:
    """Ignore progress."""


class FittedConfig(Config):
    """Base configuration of fitted models: the keys of [fit] in TOML."""

    family: ClassVar[str]  # which data it reads, how it is scored and shown

    kind: str

    def build(self) -> "Fitted[Any]":
        raise NotImplementedError


FITTED: Registry[FittedConfig] = Registry("fitted model")


class Fitted(ABC, Generic[E]):
    """A model fitted without gradient steps."""

    @abstractmethod
    def fit(self, examples: E, watch: Watch = no_progress) -> list[Row]:
        """Fit to examples; return a row of metrics per pass."""

    @abstractmethod
    def score(self, examples: E) -> dict[str, float]:
        """Return metrics on other examples."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model's files: safetensors, JSON or text, never pickle."""

    @abstractmethod
    def load(self, folder: Path) -> Self:
        """Load a saved model into this one."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Count the numbers it stores, by part."""


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)  # the library makes files that only their owner reads


def load_arrays(folder: Path, *names: str) -> Arrays:
    """Load the arrays of a saved model; those in `names` must be among them."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / WEIGHTS
    try:
        arrays: Arrays = load_file(file)
    except FileNotFoundError:
        raise RunError("no such file: the run is incomplete", file=file) from None
    except (SafetensorError, OSError) as error:
        raise RunError(f"is damaged: {error}", file=file) from None
    if missing := [name for name in names if name not in arrays]:
        raise RunError(f"holds no {missing[0]!r}: it is another model's", file=file)
    return arrays
