"""What is scored and kept of a classification, whatever was read: texts, pictures, signals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.metrics import accuracy, classification_scores, confusion, macro_f1
from attentif.tasks.ragged import Ints
from attentif.tasks.task import Evaluation


def classified(log_p: NDArray[np.float64], true: Ints, labels: list[str], split: str, *, quick: bool) -> Evaluation:
    """Scores of log-probabilities (examples, classes); what the report draws too, unless it was `quick`."""
    predicted = log_p.argmax(1)
    table = confusion(true, predicted, log_p.shape[1])
    loss = -float(log_p[np.arange(len(true)), true].mean())
    if quick:
        scores = {"accuracy": float(accuracy(table)), "f1": float(macro_f1(table)), "loss": loss}
        return Evaluation(scores, examples=len(true), split=split)
    from attentif.view.figures.classify import reliability

    scores, intervals = classification_scores(table)
    bins = reliability(np.exp(log_p.max(1)), true == predicted)
    details: dict[str, Any] = {
        "labels": labels,
        "confusion": table.tolist(),
        "calibration": {name: plain(getattr(bins, name)) for name in ("edges", "counts", "confidence", "accuracy")},
        "by_length": [],
        "worst": [],
    }
    return Evaluation(scores | {"loss": loss, "ece": bins.ece}, intervals, len(true), details, split)


def plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers that JSON can hold: nothing in place of nan."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def surest_errors(log_p: NDArray[np.float64], true: Ints, count: int) -> list[int]:
    """The errors that the model was surest of."""
    wrong = np.flatnonzero(log_p.argmax(1) != true)
    return wrong[np.argsort(-log_p.max(1)[wrong], kind="stable")[:count]].tolist()
