"""Scores and details of a classification of texts, pictures or signals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data import Table
from attentif.errors import ConfigError, DataError
from attentif.models import Model, ModelConfig
from attentif.models.heads import ClassifyHeadConfig
from attentif.tasks.answers import Evaluation
from attentif.tasks.classification.report import ClassDetails
from attentif.tasks.metrics import accuracy, balanced_accuracy, classification_scores, confusion, macro_f1, precision_recall, ranking_scores
from attentif.tasks.ragged import Ints

MOST_CURVES = 8  # classes whose precision against recall is drawn


def score_classes(
    log_p: NDArray[np.float64], true: Ints, labels: Sequence[str], split: str, *, quick: bool, predicted: Ints | None = None
) -> Evaluation:
    """Score log-probabilities (examples, classes); with intervals and details unless `quick`.

    `predicted`: what is answered, where that is not the likeliest class."""
    predicted = log_p.argmax(1) if predicted is None else predicted
    table = confusion(true, predicted, log_p.shape[1])
    loss = -float(log_p[np.arange(len(true)), true].mean())
    if quick:
        scores = {"accuracy": float(accuracy(table)), "f1": float(macro_f1(table)), "balanced_accuracy": float(balanced_accuracy(table))}
        return Evaluation(scores | {"loss": loss}, examples=len(true), split=split)
    from attentif.view.figures.classify import reliability

    p = np.exp(log_p)
    scores, intervals = classification_scores(table)
    ranked, ranked_intervals = ranking_scores(p, true)
    ece = reliability(p[np.arange(len(p)), predicted], true == predicted).ece
    details = class_details(p, true, labels, predicted)
    return Evaluation(scores | ranked | {"loss": loss, "ece": ece}, intervals | ranked_intervals, len(true), details, split)


def class_details(p: NDArray[np.float64], true: Ints, labels: Sequence[str], predicted: Ints) -> ClassDetails:
    """What the report shows of probabilities (examples, classes) and of the answers."""
    from attentif.view.figures.classify import reliability

    bins = reliability(p[np.arange(len(p)), predicted], true == predicted)
    return {
        "labels": list(labels),
        "confusion": confusion(true, predicted, p.shape[1]).tolist(),
        "calibration": {
            "edges": plain(bins.edges),
            "counts": plain(bins.counts),
            "confidence": plain(bins.confidence),
            "accuracy": plain(bins.accuracy),
        },
        "precision_recall": _curves(p, true, labels),
        "by_length": [],
        "worst": [],
    }


def _curves(p: NDArray[np.float64], true: Ints, labels: Sequence[str]) -> dict[str, list[list[float]]]:
    """(recall, precision, threshold) of each class if there are few; of two classes, the rarer one."""
    counts = np.bincount(true, minlength=p.shape[1])
    chosen = [int(counts.argmin())] if p.shape[1] == 2 else range(p.shape[1]) if p.shape[1] <= MOST_CURVES else ()
    return {labels[c]: [[round(v, 4) for v in point] for point in precision_recall(p[:, c], true == c)] for c in chosen if counts[c]}


def plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers for JSON: None in place of NaN."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def surest_errors(log_p: NDArray[np.float64], true: Ints, count: int) -> list[int]:
    """Rows of the most confident errors."""
    wrong = np.flatnonzero(log_p.argmax(1) != true)
    return wrong[np.argsort(-log_p.max(1)[wrong], kind="stable")[:count]].tolist()


def first_of_each_class(true: Ints, classes: int) -> list[int]:
    """The first row of each class that occurs."""
    return [int(np.flatnonzero(true == c)[0]) for c in range(classes) if (true == c).any()]


def number_labels(table: Table, labels: Sequence[str]) -> Ints:
    """Labels as class numbers; DataError for a label that the model does not know."""
    number = {label: place for place, label in enumerate(labels)}
    for row, label in enumerate(table["label"]):
        if label not in number:
            raise unknown_label(label, table.place(row), labels)
    return np.array([number[label] for label in table["label"]], dtype=np.int64)


def check_pooling(model: ModelConfig, built: Model, unit: str) -> None:
    """Refuse a causal model whose head reads the first position alone."""
    if isinstance(model.head, ClassifyHeadConfig) and model.head.pool == "first" and built.caps.causal:
        raise ConfigError(f'model.head.pool: the first {unit} of a causal model has read nothing else; pool = "last" has read it all')


def unknown_label(label: str, place: str, labels: Sequence[str]) -> DataError:
    return DataError(f"{place}: the label {label!r} is none of the model's classes ({', '.join(labels[:10])})")
