"""What a task is: what is read, what is predicted, how it is scored and shown. The trainer knows no task; a task knows no trainer.

A task of your own is one file, given to `attentif --plugin my.py`:

    from attentif.tasks import TASKS, Classify, ClassifyConfig

    @TASKS.register
    class StarsConfig(ClassifyConfig):                  # its keys are those of [task] in TOML
        '''Stars of a review, 1 to 5: classes that have an order.'''
        kind: Literal["stars"] = "stars"
        tolerance: int = Field(1, ge=0, description="how far a prediction may be from the truth")

        def build(self) -> "Stars":
            return Stars(self)

    class Stars(Classify):
        metric = "close"
        def evaluate(self, model, dataset, **options): ...

or a `Task` from scratch: the abstract methods below are all that the trainer, the command line and the report call.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.config import Config, Registry
from attentif.data import DataConfig
from attentif.errors import ConfigError, NonFiniteError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Score, Section
from attentif.view.words import Text, Words, metric

Say = Callable[[str], None]  # tells the user one line
Progress = Callable[[int, int], None]  # done, of so many
Tokenizers = dict[str, Tokenizer]  # "tokenizer", and "target" where the target has its own
Example = Mapping[str, str]  # one row by role: {"text": ...}, {"text": ..., "pair": ...}, {"source": ..., "target": ...}


class Dataset(Protocol):
    """One split, encoded. What a task's own methods need beyond this (texts, references) its own class holds."""

    @property
    def name(self) -> str:
        """ "train", "valid" or "test"."""
        ...

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each example, as far as they count in a batch's budget: (rows,), or a column for each side, (rows, sides)."""
        ...

    def __len__(self) -> int: ...

    def batch(self, rows: Sequence[int] | NDArray[np.int64], *, packed: bool = False) -> Batch:
        """The examples `rows` as one batch, padded or packed; `Batch.rows` says which they are."""
        ...

    def place(self, row: int) -> str:
        """Where an example comes from: "avis.csv:17"."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the data decide about the model: `model.with_sizes(vocab=..., target_vocab=..., classes=...)`."""

    vocab: int | None = None
    target_vocab: int | None = None
    classes: int | None = None
    max_len: int | None = None  # the longest example, in tokens
    frontend: Mapping[str, Any] = field(default_factory=dict)  # of keys of its own: {"channels": 3}
    head: Mapping[str, Any] = field(default_factory=dict)

    def fill(self, model: ModelConfig) -> ModelConfig:
        """The model with these sizes; ConfigError where it was given others that cannot serve."""
        filled = model.with_sizes(
            vocab=self.vocab, target_vocab=self.target_vocab, classes=self.classes, frontend=self.frontend, head=self.head
        )
        needs = [("frontend", "vocab", self.vocab), ("target", "vocab", self.target_vocab or self.vocab), ("head", "classes", self.classes)]
        needs += [(part, key, needed) for part in ("frontend", "head") for key, needed in getattr(self, part).items()]
        for part, key, needed in needs:
            given = getattr(getattr(filled, part), key, None)
            if given is None or needed is None or given == needed:
                continue
            if given < needed or key != "vocab":  # a vocabulary may have room to spare; a class without a name could not be answered
                wrong = "small" if given < needed else "large"
                raise ConfigError(f"model.{part}.{key}: {given} is too {wrong}, the data have {needed}; leave it out to have it filled in")
        return filled


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data ready for training, and all that the run folder must keep to use the model without them."""

    task: "TaskConfig"  # the task's configuration with what the data decided (class names): this is the one to save
    train: Dataset
    valid: Dataset
    test: Dataset
    tokenizers: Tokenizers
    sizes: Sizes
    digest: str  # SHA-256 of the data
    notes: list[str] = field(default_factory=list)  # what was detected, cut or left out, for the log and the report


@dataclass(frozen=True, slots=True)
class Loss:
    """Sums over the scored tokens (or examples) of one batch, so that the loop can divide by the count of the whole global batch."""

    total: Tensor  # differentiable
    count: int
    metrics: dict[str, Tensor] = field(default_factory=dict)  # sums over the same count: {"accuracy": correct ones}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores on one split. `details` is plain data (JSON), enough to draw the task's sections again without the model."""

    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, bootstrap
    examples: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    split: str = "test"

    def measured(self) -> dict[str, Score]:
        """Scores with their intervals, as the report shows them."""
        return measured(self.scores, self.intervals)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A simple system fitted on the same training split and scored on the same test split."""

    name: Words
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: float = 0.0  # to fit and to score

    def measured(self) -> dict[str, Score]:
        return measured(self.scores, self.intervals)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model answers to one input."""

    input: str
    output: str  # a label, a translation, a continuation
    probability: float | None = None  # of the output, where it is one of a few
    scores: dict[str, float] = field(default_factory=dict)  # label -> probability, likeliest first
    details: dict[str, Any] = field(default_factory=dict)  # what else there is to say, as plain data: entities and their places


def refuse_non_finite(predictions: Sequence[Prediction]) -> None:
    """Raise NonFiniteError where an answer holds NaN or infinity: its weights, or its input, are not usable."""
    for one in predictions:
        if not _is_finite([one.probability, one.scores, one.details]):
            raise NonFiniteError


def _is_finite(value: Any) -> bool:
    match value:
        case float() | np.floating():
            return math.isfinite(value)
        case Mapping():
            return all(map(_is_finite, value.values()))
        case list() | tuple():
            return all(map(_is_finite, value))
    return True


def measured(scores: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]) -> dict[str, Score]:
    return {key: Score(value, *intervals.get(key, (None, None))) for key, value in scores.items()}


class TaskConfig(Config):
    """Base of every task's configuration."""

    kind: str

    def build(self) -> "Task":
        raise NotImplementedError


TASKS: Registry[TaskConfig] = Registry("task")


class Task(ABC):
    """One kind of prediction. Its methods are called in this order by a run."""

    config: TaskConfig
    metric: str  # the score that counts: early stopping, the best checkpoint, the report's headline
    reads: str = "text"  # the role of what is given to `predict`, and of the column that holds it
    beside: tuple[str, ...] = ("pair",)  # the roles of columns that are read with it, where a table has them
    begins_texts: bool = False  # True: an empty text can be answered, by what may stand first
    needs_tokenizer: bool = True  # False: pictures, series, sounds without transcripts
    optional_inputs: tuple[str, ...] = ()  # what may be given beside one input: "pair", "target", "language"
    offers: tuple[str, ...] = ()  # capabilities (`capabilities.py`) that do not depend on the model
    unit: Text = Text("exemples", "examples")  # what a split is counted in; scores may be of something smaller

    def __init__(self, config: TaskConfig) -> None:
        self.config = config

    @property
    def higher_is_better(self) -> bool:
        return metric(self.metric).higher_is_better

    @property
    def averages(self) -> bool:
        """Whether all that is answered comes from the numbers of `model(batch)`, so that they may be the mean of several members'."""
        return False

    def capabilities(self, model: ModelConfig) -> tuple[str, ...]:
        """Names of what a run of this task and such a model can do."""
        reads_tokens = ("embed",) if isinstance(model.frontend, TokensConfig) and self.needs_tokenizer else ()
        return (*dict.fromkeys((*self.offers, *reads_tokens)), "inspect")

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """The model with this task's head, where a preset brings another one."""
        return model

    @abstractmethod
    def check(self, model: ModelConfig) -> None:
        """Raise ConfigError where such a model cannot do this task. No data have been read yet."""

    @abstractmethod
    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        """Read the data, train the tokenizer on the training split (or use those of a run), encode. The task then knows `Prepared.task`."""

    @abstractmethod
    def read(self, data: "DataConfig", tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Dataset:
        """All examples of the `train` files, for a trained model to be scored on: nothing is cut, trained or checked for balance."""

    def begin(self, model: Model, prepared: Prepared, say: Say) -> None:  # noqa: B027 - few tasks need it
        """Before the first step of fresh weights: put into them what the data teach without the model (word vectors)."""

    @abstractmethod
    def step(self, model: Model, batch: Batch) -> Loss:
        """The loss of one batch, differentiable."""

    def learn(self, model: Model, batch: Batch) -> Loss:
        """The loss of every member of the model, which know nothing of each other; as a number, their mean."""
        losses = [self.step(member, batch) for member in model.members]
        if len(losses) == 1:
            return losses[0]
        mean = lambda sums: (torch.stack(sums) / len(sums)).sum(0)
        metrics = {key: mean([loss.metrics[key] for loss in losses]) for key in losses[0].metrics}
        return Loss(mean([loss.total for loss in losses]), losses[0].count, metrics)

    @abstractmethod
    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        """Score a split, in eval mode, in batches of `budget` tokens. `quick`: what training watches; `progress` may raise to stop it."""

    def settle(  # noqa: B027 - few tasks need it
        self, model: Model, prepared: Prepared, folder: Path, *, budget: int, say: Say, progress: Progress | None = None
    ) -> None:
        """After training, before scoring: choose on validation what a finished model needs (a temperature, thresholds), and write it to
        the run's folder, where `recall` finds it."""

    @property
    def note(self) -> str:
        """What somebody who reads the answers must know, in a line; nothing where they are the model's own."""
        return ""

    def caveat(self, model: Model) -> str:
        """The same of a model's answers, which may be the mean of several."""
        mean = f"answers are the mean of {len(model.members)} networks" if model.others else ""
        return "; ".join(said for said in (mean, self.note) if said)

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        """Simple systems to be measured against, on the same splits."""
        return []

    def keep(self, folder: Path) -> None:  # noqa: B027 - few tasks need it
        """Write to a new run's folder what the data taught beside the tokenizers and `Prepared.task` (a codebook)."""

    def recall(self, folder: Path) -> None:  # noqa: B027 - few tasks need it
        """Read it again, before anything else is asked of a run's task."""

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        """What a file holds to be answered, where the task has formats of its own (SQuAD, CoNLL); None: lines, or a table of texts."""
        return None

    @abstractmethod
    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """Answers to new inputs; `options` are the task's own (decoding)."""

    def sections(self, evaluation: Evaluation) -> list[Section]:
        """The task's part of the report, from an evaluation that was not quick."""
        return []

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """A few test examples worth looking inside."""
        return []

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """Attention weights of these inputs, by layer and head."""
        return []
