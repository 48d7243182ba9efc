"""What a fitted model reads, how it is scored and shown: for `text/fitted.py` what `task.py` is for trained models.

A family of fitted models ("words", "language", "alignment") has one `Fitting`, registered by its name.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from attentif.data import DataConfig
from attentif.errors import ConfigError
from attentif.tasks.task import Baseline, Evaluation, Progress, Say, Tokenizers
from attentif.text import TokenizerConfig
from attentif.text.fitted import Fitted, FittedConfig
from attentif.view.blocks import Section


@dataclass(frozen=True, slots=True)
class Examples:
    """One split, as the family's models read it."""

    name: str  # "train", "valid" or "test"
    of: Any  # what `Fitted.fit` and `score` are given
    size: int  # words, tokens or pairs
    tokenizers: Tokenizers = field(default_factory=dict)
    beside: Any = None  # what is needed to score and show it beyond that


@dataclass(frozen=True, slots=True)
class Material:
    """Data ready to be fitted to, and what the run folder must keep to use the model without them."""

    train: Examples
    valid: Examples
    test: Examples
    tokenizers: Tokenizers
    digest: str  # SHA-256 of the data
    notes: list[str] = field(default_factory=list)


class Fitting(ABC):
    """One family of fitted models."""

    metric: ClassVar[str]  # the score that counts
    note: ClassVar[str] = ""  # what to say beside its scores
    unit: ClassVar[str]  # what an example is: "words", "tokens", "pairs"
    offers: ClassVar[tuple[str, ...]] = ()  # capabilities
    reads: ClassVar[str] = "text"
    optional_inputs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: FittedConfig) -> None:
        self.config = config

    def capabilities(self, model: Any) -> tuple[str, ...]:
        """Names of what a fitted model of this family can do."""
        return self.offers

    def caveat(self, model: Any) -> str:
        """Shown with every answer."""
        return self.note

    @abstractmethod
    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: Any, say: Say) -> Material:
        """Read the data, train the tokenizer (or use those of a run), number the words."""

    @abstractmethod
    def read(self, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Examples:
        """All of the `train` files, for a fitted model to be scored on."""

    @abstractmethod
    def evaluate(
        self, model: Fitted[Any], dataset: Examples, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        """Score a split; its details are enough to draw the sections."""

    def baselines(self, material: Material, say: Say) -> list[Baseline]:
        """Simple systems to be measured against, on the same splits."""
        return []

    def sections(self, evaluation: Evaluation) -> list[Section]:
        """The family's part of the report."""
        return []


FITTINGS: dict[str, type[Fitting]] = {}


def fitting(family: str) -> Any:
    """Class decorator: the `Fitting` of a family."""

    def register(cls: type[Fitting]) -> type[Fitting]:
        FITTINGS[family] = cls
        return cls

    return register


def fitting_of(config: FittedConfig) -> Fitting:
    if config.family not in FITTINGS:
        raise ConfigError(f"fit: no family of fitted models is called {config.family!r}; there are {', '.join(FITTINGS)}")
    return FITTINGS[config.family](config)
