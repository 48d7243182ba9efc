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
        def evaluate(self, model, state, dataset, **options): ...

or a `Task` from scratch: the abstract methods below are all that the trainer, the command line and the report call.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict
from torch import Tensor

from attentif.config import Config, Registry
from attentif.data import DataConfig
from attentif.errors import ConfigError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.tasks.answers import BUDGET as BUDGET
from attentif.tasks.answers import Baseline as Baseline
from attentif.tasks.answers import EvalOptions as EvalOptions
from attentif.tasks.answers import Evaluation as Evaluation
from attentif.tasks.answers import Prediction as Prediction
from attentif.tasks.answers import Progress as Progress
from attentif.tasks.answers import RemoteMap
from attentif.tasks.predictors import Predictor, networks_of
from attentif.tasks.states import build_state
from attentif.tasks.tokenizers import Tokenizers as Tokenizers
from attentif.tasks.tokenizers import TokenizerSource as TokenizerSource
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import EXAMPLES, Text

Say = Callable[[str], None]  # tells the user one line
Example = Mapping[str, str]  # one row by role: {"text": ...}, {"text": ..., "pair": ...}, {"source": ..., "target": ...}
Inputs = Sequence[str | Example]  # what `predict` is given


class Split(Protocol):
    """The examples of one split."""

    @property
    def name(self) -> str:
        """ "train", "valid" or "test"."""
        ...

    def __len__(self) -> int: ...


class Dataset(Split, Protocol):
    """One split, encoded. What a task's own methods need beyond this (texts, references) its own class holds."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each example, as far as they count in a batch's budget: (rows,), or a column for each side, (rows, sides)."""
        ...

    def batch(self, rows: Sequence[int] | NDArray[np.int64], *, packed: bool = False) -> Batch:
        """The examples `rows` as one batch, padded or packed; `Batch.rows` says which they are."""
        ...

    def place(self, row: int) -> str:
        """Location of an example: "avis.csv:17"."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the model that the data determine."""

    vocab: int | None = None
    target_vocab: int | None = None
    classes: int | None = None
    max_len: int | None = None  # the longest example, in tokens
    frontend: Mapping[str, Any] = field(default_factory=dict)  # of keys of its own: {"channels": 3}
    head: Mapping[str, Any] = field(default_factory=dict)

    def fill(self, model: ModelConfig) -> ModelConfig:
        """Fill in the sizes; ConfigError if the model has others that do not fit."""
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


@dataclass(frozen=True)
class TaskState:
    """What a task learned from the training data, saved with the run (`states.py`). The base holds nothing."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")


State = TypeVar("State", bound=TaskState)
Data = TypeVar("Data", bound=Dataset)
Part = TypeVar("Part", bound=Split)


@dataclass(frozen=True, slots=True)
class Prepared(Generic[State, Part]):
    """Data ready for training, and what the run folder keeps to use the model without them."""

    state: State
    train: Part
    valid: Part
    test: Part
    tokenizers: Tokenizers
    sizes: Sizes  # of a network
    digest: str  # SHA-256 of the data
    notes: list[str] = field(default_factory=list)  # what was detected, cut or left out, for the log and the report

    @property
    def splits(self) -> tuple[Part, Part, Part]:
        return self.train, self.valid, self.test


@dataclass(frozen=True, slots=True)
class Loss:
    """Sums over the scored tokens (or examples) of a batch; the loop divides by the count of the global batch."""

    total: Tensor  # differentiable
    count: int
    metrics: dict[str, Tensor] = field(default_factory=dict)  # sums over the same count: {"accuracy": correct ones}


class TaskConfig(Config):
    """Base of every task's configuration."""

    kind: str

    def build(self) -> "AnyTask":
        raise NotImplementedError


TASKS: Registry[TaskConfig] = Registry("task")


class BaseTask(ABC, Generic[State, Part]):
    """What trained and fitted tasks have in common: functions of the configuration and their arguments.

    A task never changes after it is built."""

    config: Any  # its `kind` names the task
    metric: str  # the score that counts: early stopping, the best checkpoint, the report's headline
    reads: str = "text"  # the role of what is given to `predict`, and of the column that holds it
    optional_inputs: tuple[str, ...] = ()  # what may be given beside one input: "pair", "target", "language"
    offers: tuple[str, ...] = ()  # capabilities (`capabilities.py`) that do not depend on the model
    unit: Text = EXAMPLES  # what a split is counted in
    scored_unit: Text | None = None  # what scores count, where that is something smaller
    scores_by_batch: bool = False  # True: all that is slow in `score` is done by `map_batches`, and so by a cluster

    def __init__(self, config: Any) -> None:
        self.config = config

    def capabilities(self, model: Any) -> tuple[str, ...]:
        """Names of what a run of this task can do with a model of this configuration."""
        return self.offers

    def count(self, part: Part) -> int:
        """How many `unit` a split has."""
        return len(part)

    def metric_for(self, state: State) -> str:
        """The main score, where the data decide which."""
        return self.metric

    @abstractmethod
    def prepare(self, data: DataConfig, text: TokenizerSource, model: Any, say: Say, state: State | None = None) -> Prepared[State, Part]:
        """Read the data, train the tokenizer on the training split (or use those of a run, with its `state`), encode."""

    @abstractmethod
    def read(self, state: State, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Part:
        """All examples of the `train` files, for a finished model to be scored on: nothing is cut, trained or checked for balance."""

    def evaluate(
        self,
        model: Any,
        state: State,
        dataset: Part,
        *,
        budget: int = BUDGET,
        quick: bool = False,
        progress: Progress | None = None,
        remote_map: RemoteMap | None = None,
    ) -> Evaluation:
        """Score a split; the options are those of `EvalOptions`."""
        return self.score(model, state, dataset, EvalOptions(budget, quick, progress, remote_map))

    @abstractmethod
    def score(self, model: Any, state: State, dataset: Part, options: EvalOptions) -> Evaluation:
        """Score a split in eval mode."""

    def baselines(self, prepared: Prepared[State, Part], say: Say) -> list[Baseline]:
        """Fit and score simple systems on the same splits."""
        return []

    def sections(self, evaluation: Evaluation) -> list[Section]:
        """The task's part of the report."""
        return []

    def warnings(self, evaluation: Evaluation) -> list[Text]:
        """What the scores alone would hide."""
        return []

    def caveat(self, predictor: Any, state: State) -> str:
        """Caveat shown with every prediction; empty for a plain network."""
        return ""


class Task(BaseTask[State, Data]):
    """One kind of prediction by networks that are trained step by step.

    `model` is a plain network, or an `Ensemble` of them where the task `averages`; `step` is asked of each network alone."""

    config: TaskConfig
    state_type: ClassVar[type[TaskState]] = TaskState
    beside: tuple[str, ...] = ("pair",)  # the roles of columns that are read with it, where a table has them
    samples_rows: bool = False  # True: `data.limit` keeps so many rows of train, from which the cost of all can be worked out
    begins_texts: bool = False  # True: an empty text can be answered, by what may stand first
    needs_tokenizer: bool = True  # False: pictures, series, sounds without transcripts
    evaluates_by_block: bool = (
        False  # True: `evaluate(quick=True)` calls the blocks of a model as training does, and nothing inside of them
    )
    imported_state: ClassVar[Mapping[str, Any]] = {}  # what is known of an imported model's state beside its configuration

    @property
    def averages(self) -> bool:
        """Whether predictions depend on the logits of `model(batch)` alone, so that an ensemble can average them."""
        return False

    def capabilities(self, model: ModelConfig) -> tuple[str, ...]:
        """Names of the capabilities of a run of this task with this model."""
        reads_tokens = ("embed",) if isinstance(model.frontend, TokensConfig) and self.needs_tokenizer else ()
        return (*dict.fromkeys((*self.offers, *reads_tokens)), "inspect")

    # ------------------------------------------------------------------------------------------------------ model and data

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """Return the model with a head for this task."""
        return model

    @abstractmethod
    def check(self, model: ModelConfig) -> None:
        """Raise ConfigError if the model cannot do this task; no data have been read yet."""

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> State:
        """The state of an imported model, or of a run without `task.json`; `table` is [task] of its configuration."""
        names = {one.name for one in fields(self.state_type)}
        known = {key: value for key, value in table.items() if key in names and value is not None}
        return cast("State", build_state(self.state_type, known))

    # ------------------------------------------------------------------------------------------------------------ training

    def init_weights(self, model: Any, prepared: Prepared[State, Data], say: Say) -> None:
        """Initialise fresh weights from the data, as with word vectors."""

    @abstractmethod
    def step(self, model: Model, batch: Batch) -> Loss:
        """The loss of one batch, differentiable."""

    def learn(self, predictor: Predictor, batch: Batch) -> Loss:
        """The mean loss of all networks of an ensemble, each trained on its own."""
        losses = [self.step(network, batch) for network in networks_of(predictor)]
        if len(losses) == 1:
            return losses[0]
        mean = lambda sums: (torch.stack(sums) / len(sums)).sum(0)
        metrics = {key: mean([loss.metrics[key] for loss in losses]) for key in losses[0].metrics}
        return Loss(mean([loss.total for loss in losses]), losses[0].count, metrics)

    def finalize(self, model: Any, prepared: Prepared[State, Data], *, budget: int, say: Say, progress: Progress | None = None) -> State:
        """Return the state with what is chosen on validation after training: a temperature, thresholds."""
        return prepared.state

    # ------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        """Inputs of a file in a format of the task's own (SQuAD, CoNLL); None: lines, or a table of texts."""
        return None

    @abstractmethod
    def predict(self, model: Any, state: State, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Predict new inputs; `options` are the task's own (decoding)."""

    def caveat(self, predictor: Predictor, state: State) -> str:
        """Caveat shown with every prediction; empty for a plain network."""
        networks = len(networks_of(predictor))
        return f"answers are the mean of {networks} networks" if networks > 1 else ""

    def graph_outputs(self, state: State, logits: Tensor) -> dict[str, Tensor]:
        """What an exported graph returns, by name, from the network's logits: calibrated and decided as here, where that is so."""
        return {"logits": logits}

    def examples(self, prepared: Prepared[State, Data], count: int = 3) -> list[Example]:
        """A few test examples for the attention maps of the report."""
        return []

    def maps(self, model: Any, state: State, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """Attention maps of the inputs, by layer and head."""
        return []


AnyTask = Task[Any, Any]
AnyBaseTask = BaseTask[Any, Any]
AnyPrepared = Prepared[Any, Any]
