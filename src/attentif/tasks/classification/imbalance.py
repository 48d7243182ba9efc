"""Rare classes: what each example counts in training, and from which probability on a class is answered.

    w_c  = N / (C n_c)                            weights with which all classes count the same; their mean over the examples is 1
    p_c  = softmax(z + ln π)_c,   π_c = n_c / N   a network that learned with weights answers as if all classes were as frequent (z): the
                                                  shares of training are put back (logit adjustment, Menon et al. 2021)
    ŷ    = argmax_c  ln p_c - τ ln π_c            τ = 0 is right most often, τ = 1 recalls all classes best (Bayes), F1 lies between

τ is chosen on validation, where a rare class may have three examples. So predictions are counted in shares: softmax((ln p - τ ln π) / h)
of each example, with h the standard error of the margins of the rarest class. Between two classes τ is a threshold: p_2 > σ(τ ln π_2/π_1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from attentif.tasks.classification.linear import Floats, Ints
from attentif.tasks.metrics import accuracy, balanced_accuracy, macro_f1

Metric = Literal["accuracy", "balanced_accuracy", "f1"]
ScoredBy = Literal["auto", "accuracy", "balanced_accuracy", "f1"]
Weighting = Literal["auto", "balanced", "none"]

RARE = 0.2  # of an equal share: the smallest class below which classes are balanced
SCORES = {"accuracy": accuracy, "balanced_accuracy": balanced_accuracy, "f1": macro_f1}
USUAL: dict[Metric, float] = {"accuracy": 0.0, "balanced_accuracy": 1.0, "f1": 0.5}  # τ without validation
STEPS = np.linspace(0.0, 2.0, 41)
MARGIN = 1e-3  # how much better than the usual τ another must be


@dataclass(frozen=True)
class Balance:
    """Class weights and decision offsets for imbalanced classes; none by default."""

    metric: Metric = "accuracy"
    weights: Floats | None = None  # (C,): what an example of each class counts
    log_shares: list[float] = field(default_factory=list)  # where there are weights
    offsets: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def balance_of(numbers: Ints, labels: Sequence[str], weighting: Weighting, scored_by: ScoredBy) -> Balance:
    """Of the training split."""
    rare, shares = is_imbalanced(numbers, len(labels)), shares_of(numbers, len(labels))
    metric: Metric = scored_by if scored_by != "auto" else "balanced_accuracy" if rare else "accuracy"
    offsets = usual_offsets(shares, metric)
    if weighting == "none" or (weighting == "auto" and not rare):
        return Balance(metric, offsets=offsets)
    weights = class_weights(numbers, len(labels))
    rarest, commonest = int(np.argmin(shares)), int(np.argmax(shares))
    note = (
        f"classes count the same in the loss, however rare: an example of {labels[rarest]!r} counts {weights[rarest]:.3g}, one of "
        f"{labels[commonest]!r} {weights[commonest]:.3g} (task.class_weights); the score that counts "
        f"is {metric.replace('_', ' ')} (task.metric)"
    )
    return Balance(metric, weights, np.log(shares).tolist(), offsets, [note])


def shares_of(labels: Ints, classes: int) -> Floats:
    """π, with half an example more of each class, so that none is impossible."""
    counts = np.bincount(labels, minlength=classes) + 0.5
    return np.asarray(counts / counts.sum())


def is_imbalanced(labels: Ints, classes: int) -> bool:
    return bool(np.bincount(labels, minlength=classes).min() < RARE * len(labels) / classes)


def class_weights(labels: Ints, classes: int) -> Floats:
    """(C,)"""
    return np.asarray(len(labels) / (classes * np.maximum(np.bincount(labels, minlength=classes), 1)))


def usual_offsets(shares: Floats, metric: Metric) -> list[float]:
    """τ ln π where there is no validation to choose by; none for accuracy."""
    return (USUAL[metric] * np.log(shares)).tolist() if USUAL[metric] else []


def choose_offsets(p: Floats, labels: Ints, shares: Floats, metric: Metric) -> list[float]:
    """τ ln π for the τ with the best score on validation; what is right most often needs none."""
    if metric == "accuracy" or not np.isin(np.arange(p.shape[1]), labels).all():
        return usual_offsets(shares, metric)
    log_p, log_share = np.log(np.maximum(p, 1e-12)), np.log(shares)
    width = _standard_error(log_p, labels)
    score = lambda t: float(SCORES[metric](_soft_confusion((log_p - t * log_share) / width, labels)))
    usual, found = USUAL[metric], [score(t) for t in STEPS]
    tau = float(STEPS[int(np.argmax(found))]) if max(found) > score(usual) + MARGIN else usual
    return (tau * log_share).tolist()


def decide(p: Floats, offsets: list[float]) -> Ints:
    """(N,): the class that is answered."""
    return (np.log(np.maximum(p, 1e-12)) - np.array(offsets)).argmax(1) if offsets else p.argmax(1)


def _standard_error(log_p: Floats, labels: Ints) -> float:
    """Of the mean margin of the rarest class: about as far as its place among the scores is known."""
    own = log_p[np.arange(len(labels)), labels]
    others = log_p.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    rarest = np.bincount(labels, minlength=log_p.shape[1]).min()
    return max(float((own - others.max(1)).std() / np.sqrt(rarest)), 1e-6)


def _soft_confusion(logits: Floats, labels: Ints) -> Floats:
    """(C, C): predictions of each true class, counted in shares."""
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    table = np.zeros((p.shape[1], p.shape[1]))
    np.add.at(table, labels, p)
    return table
