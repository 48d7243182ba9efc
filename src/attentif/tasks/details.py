"""Evaluation details: plain data (JSON) that a task keeps for its part of the report, typed by the task."""

from typing import NotRequired, TypedDict, TypeVar, cast

from attentif.tasks.base import Evaluation
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


def details_of(evaluation: Evaluation, kind: type[D]) -> D | None:
    """Return the details of an evaluation as those of one task; None if the evaluation was quick or another task's."""
    required: frozenset[str] = getattr(kind, "__required_keys__")  # noqa: B009 - TypedDict has it, `type` does not say so
    return cast("D", evaluation.details) if required <= evaluation.details.keys() else None
