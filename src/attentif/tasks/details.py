"""Details of evaluations and predictions: plain data (JSON), typed by the task that makes them."""

from typing import NotRequired, TypedDict, TypeVar, cast

from attentif.tasks.answers import Evaluation, Prediction
from attentif.tasks.metrics import GroupScores, Interval, Slice

D = TypeVar("D")


class Sliced(TypedDict):
    """Scores by length and by group."""

    by_length: list[Slice]
    by_group: NotRequired[list[GroupScores]]


class Excerpt(TypedDict):
    """A piece of text and how surprised the model was by each token."""

    tokens: list[str]
    bits: list[float]


class ScoredRows(TypedDict):
    scores: dict[str, float]
    intervals: dict[str, Interval]
    examples: int


class OverlapDetails(TypedDict):
    """Rows of other data that training had read too, and the scores of those that it had not."""

    trained_on: int
    unseen: ScoredRows | None


class TaggedEntity(TypedDict):
    type: str
    text: str
    start: int
    end: int


class TagAnswer(TypedDict):
    """A tagged sentence: its entities, its words and their tags."""

    entities: list[TaggedEntity]
    words: list[str]
    tags: list[str]


class SpanAnswer(TypedDict):
    """Where an answer stands in its passage; no place where the passage does not say."""

    context: str
    start: NotRequired[int]
    end: NotRequired[int]


class TableAnswer(TypedDict):
    """An answer of several rows, and what was done to read the input."""

    table: list[dict[str, str | float | None]]
    notes: NotRequired[list[str]]


class EstimateAnswer(TableAnswer):
    """A number and its interval, which are its table too."""

    value: float
    low: NotRequired[float]
    high: NotRequired[float]


class GapAnswer(TypedDict):
    """What was written into each gap."""

    gaps: list[str]


class VectorAnswer(TypedDict):
    vector: list[float]


def details_of(found: Evaluation | Prediction, kind: type[D]) -> D | None:
    """Return details as those of one task; None if an evaluation was quick, or where they are another task's."""
    required: frozenset[str] = getattr(kind, "__required_keys__")  # noqa: B009 - TypedDict has it, `type` does not say so
    return cast("D", found.details) if required <= found.details.keys() else None


def require_details(found: Prediction, kind: type[D]) -> D:
    """Return the details of a prediction, which must be of this kind."""
    details = details_of(found, kind)
    assert details is not None
    return details
