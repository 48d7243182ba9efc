"""How a split is scored, and the results of a task: scores, baselines, answers to inputs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attentif.errors import NonFiniteError
from attentif.models import Batch
from attentif.view.blocks import Score
from attentif.view.words import Text, Words

Progress = Callable[[int, int], None]  # done, total
BUDGET = 8192  # tokens of an evaluation batch

# Calls a function of (model, dataset, batch) with each of these batches on other machines; the results in order. See `map_batches`.
RemoteMap = Callable[[Callable[[Any, Any, Batch], Any], Sequence[NDArray[np.int64]]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How a split is scored."""

    budget: int = BUDGET  # tokens of a batch
    quick: bool = False  # during training: no intervals, no details for the report
    progress: Progress | None = None  # may raise to stop the evaluation
    remote_map: RemoteMap | None = None  # the workers of a cluster


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores on one split. `details` is plain data (`details.py`), enough to draw the report without the model."""

    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, bootstrap
    examples: int = 0
    details: Mapping[str, object] = field(default_factory=dict, repr=False)
    split: str = "test"
    baselines: Sequence["Baseline"] = ()  # what the report draws beside it

    def with_intervals(self) -> dict[str, Score]:
        """Scores with their intervals."""
        return join_intervals(self.scores, self.intervals)

    def _repr_html_(self) -> str:
        from attentif.view.notebook import show_scores

        return show_scores(self.scores, self.intervals, Text(f"{self.examples} exemples", f"{self.examples:,} examples"))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A simple system fitted and scored on the same splits."""

    name: Words
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: float = 0.0  # to fit and to score
    by_step: Sequence[float] = ()  # of forecasts: the squared error of each step of the horizon

    def with_intervals(self) -> dict[str, Score]:
        return join_intervals(self.scores, self.intervals)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one input."""

    input: str
    output: str  # a label, a translation, a continuation
    probability: float | None = None  # of the output, where it is one of a few
    scores: dict[str, float] = field(default_factory=dict)  # label -> probability, likeliest first
    details: Mapping[str, object] = field(default_factory=dict)  # plain data (`details.py`), such as entities and their places

    @classmethod
    def of_classes(cls, text: str, labels: Sequence[str], p: NDArray[np.floating[Any]]) -> "Prediction":
        """The most probable class, with the probability of every class."""
        order = np.argsort(-p, kind="stable").tolist()
        return cls(text, labels[order[0]], float(p[order[0]]), {labels[c]: float(p[c]) for c in order})

    @property
    def table(self) -> list[dict[str, str | float | None]]:
        """The answer as rows, where it is more than one value: a forecast."""
        return cast("list[dict[str, str | float | None]]", self.details.get("table", []))

    @property
    def notes(self) -> list[str]:
        """What was done to read the input: rows that were filled in or left out, for example."""
        return cast("list[str]", self.details.get("notes", []))


class Predictions(list[Prediction]):
    """Answers in the order of the inputs; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        from attentif.view.notebook import show_answers

        return show_answers([(one.output, one.probability, one.input, one.table) for one in self])


def refuse_non_finite(predictions: Sequence[Prediction]) -> None:
    """Raise NonFiniteError if a prediction contains NaN or infinity."""
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


def join_intervals(scores: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]) -> dict[str, Score]:
    return {key: Score(value, *intervals.get(key, (None, None))) for key, value in scores.items()}
