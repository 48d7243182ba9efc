"""From a network's logits to the probabilities that are answered: calibrated, averaged with a linear model, cut at thresholds.

    p_net = softmax(z / T)                                           T > 0 minimises the loss on validation (Guo et al. 2017)
            softmax(z / T + ln π), where the network learned with class weights (`imbalance.py`)
    q     = α p_net + (1 - α) p_lin,   p_lin = softmax(z_lin / U)    U and α in [0, 1] by the same, where there is a linear part
    p     = softmax(ln q / S)                                        S by the same: a mean of two calibrated answers is too modest
    F1_c(θ) = 2 TP / (2 TP + FP + FN)                                θ_c: where it is best on validation, with several labels at once

σ stands for softmax, and ln q / (1 - q) for ln q, where a text may have several labels. These four numbers are chosen one after the other
on a split that no weight was fitted on; the linear model (`linear.py`) is fitted on the training split alone. To choose a temperature, the
truth of n examples counts as 1 - 1/(n + 2) and its contrary as the rest (Platt 1999): a split without an error makes nobody certain.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.errors import RunError
from attentif.files import write_json
from attentif.tasks.batches import format_count
from attentif.tasks.classification.imbalance import Metric, choose_offsets, decide, usual_offsets
from attentif.tasks.classification.linear import Floats, Ints, LinearModel

ANSWERS, LINEAR = "answers.json", "linear.safetensors"  # inside a run's folder
FEWEST = 20  # examples of validation from which numbers are fitted
TINY = 1e-12  # the smallest probability whose logarithm is taken


def probabilities(logits: NDArray[np.floating[Any]], temperature: float = 1.0, *, several: bool = False) -> Floats:
    """(N, C): softmax over the classes, or σ of each."""
    z = np.asarray(logits, dtype=np.float64) / temperature
    if several:
        return np.exp(-np.logaddexp(0, -z))
    return np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))


def log_loss(p: Floats, labels: Ints, weights: Floats | None = None) -> float:
    """The mean of -ln p of what is true: of each text's class (`weights`: of each class), or of each label, present or absent."""
    if labels.ndim == 1:
        losses = -np.log(np.maximum(p[np.arange(len(labels)), labels], TINY))
        return float(np.average(losses, weights=None if weights is None else weights[labels]))
    return -float(np.log(np.maximum(np.where(labels > 0, p, 1 - p), TINY)).mean())


@dataclass(frozen=True)
class Answers:
    """What turns logits into answers; by default a softmax."""

    several: bool = False
    network_weight: float = 1.0  # of a network that is stacked on a linear model, z = a z_net + b z_lin
    linear_weight: float = 1.0
    temperature: float = 1.0
    linear: LinearModel | None = None
    linear_temperature: float = 1.0
    weight: float = 1.0  # α, the network's
    mixed_temperature: float = 1.0
    thresholds: list[float] = field(default_factory=list)  # one a label, where there are several at once; by default 0.5
    log_shares: list[float] = field(default_factory=list)  # ln π, where the network learned with class weights
    offsets: list[float] = field(default_factory=list)  # taken off ln p before the largest is answered
    chosen_on: int = 0  # examples of validation

    @classmethod
    def fit(
        cls,
        logits: Floats,
        texts: Sequence[str],
        labels: Ints,
        *,
        calibrate: bool,
        linear: LinearModel | None,
        beneath: NDArray[np.floating[Any]] | None = None,
        shares: Floats | None = None,
        weighted: bool = False,
        metric: Metric = "accuracy",
    ) -> "Answers":
        """Choose on validation logits, texts and labels; one class each (N,), or 0 and 1 for each label (N, C).

        `beneath`: the logits of the linear model that the network is stacked on, where it is. `shares`: of the classes in training;
        `weighted`: all counted the same there. `metric`: what answers are chosen for."""
        log_shares = np.log(shares).tolist() if shares is not None and weighted else []
        made = cls(several=labels.ndim == 2, linear=linear, chosen_on=len(labels), log_shares=log_shares)
        if len(labels) < FEWEST:
            offsets = [] if shares is None else usual_offsets(shares, metric)
            return replace(made, weight=1.0 if linear is None else 0.5, offsets=offsets)
        weights = 1 / shares if shares is not None and weighted else None
        if beneath is not None and calibrate:
            a, b = _stack_weights(logits, np.asarray(beneath, np.float64), labels, weights)
            made = replace(made, network_weight=a, linear_weight=b)
            logits = made.stack(logits, beneath)
        elif calibrate:
            made = replace(made, temperature=_temperature(logits, labels, made.several, weights))
        elif beneath is not None:
            logits = made.stack(logits, beneath)
        if linear is not None:
            own = linear.logits(texts, logits.shape[1], several=made.several)
            made = replace(made, linear_temperature=_temperature(own, labels, made.several) if calibrate else 1.0)
            parts = made.network(logits), made.of_linear(own)
            made = replace(made, weight=_weight(*parts, labels))
            if calibrate:
                made = replace(made, mixed_temperature=_temperature(made._mixed_logits(*parts), labels, made.several))
        if made.several:
            return replace(made, thresholds=best_thresholds(made.probabilities(logits, texts), labels))
        if shares is not None:
            return replace(made, offsets=choose_offsets(made.probabilities(logits, texts), labels, shares, metric))
        return made

    @classmethod
    def alone(
        cls,
        linear: LinearModel,
        texts: Sequence[str],
        labels: Ints,
        classes: int,
        *,
        shares: Floats | None = None,
        metric: Metric = "accuracy",
    ) -> "Answers":
        """For a linear model without a network: choose temperature and thresholds on validation."""
        made = cls(several=labels.ndim == 2, linear=linear, weight=0.0, chosen_on=len(labels))
        if len(labels) < FEWEST:
            return replace(made, offsets=[] if shares is None else usual_offsets(shares, metric))
        logits = linear.logits(texts, classes, several=made.several)
        made = replace(made, linear_temperature=_temperature(logits, labels, made.several))
        if made.several:
            return replace(made, thresholds=best_thresholds(made.of_linear(logits), labels))
        return made if shares is None else replace(made, offsets=choose_offsets(made.of_linear(logits), labels, shares, metric))

    @property
    def needs_network(self) -> bool:
        """Whether a network has a part in the answers."""
        return self.linear is None or self.weight > 0

    def stack(self, logits: Floats, beneath: NDArray[np.floating[Any]] | None) -> Floats:
        """The network's logits on top of the linear model's, where there are any."""
        return logits if beneath is None else self.network_weight * logits + self.linear_weight * beneath

    def network(self, logits: NDArray[np.floating[Any]]) -> Floats:
        """The network's own probabilities."""
        z = np.asarray(logits, dtype=np.float64) / self.temperature
        return probabilities(z + np.array(self.log_shares) if self.log_shares else z, several=self.several)

    def of_linear(self, logits: Floats) -> Floats:
        return probabilities(logits, self.linear_temperature, several=self.several)

    def probabilities(self, logits: NDArray[np.floating[Any]], texts: Sequence[str]) -> Floats:
        """(N, C): what is answered."""
        return self.mix(self.network(logits), self.linear_part(texts, logits.shape[1]))

    def linear_part(self, texts: Sequence[str], classes: int) -> Floats | None:
        """The linear model's probabilities, where there is one."""
        return None if self.linear is None else self.of_linear(self.linear.logits(texts, classes, several=self.several))

    def mix(self, network: Floats, linear: Floats | None) -> Floats:
        if linear is None:
            return network
        if not self.needs_network:
            return linear
        return probabilities(self._mixed_logits(network, linear), self.mixed_temperature, several=self.several)

    def _mixed_logits(self, network: Floats, linear: Floats) -> Floats:
        q = np.clip(self.weight * network + (1 - self.weight) * linear, TINY, 1 - TINY)
        return np.log(q) - np.log(1 - q) if self.several else np.log(q)

    def cut(self, p: Floats) -> Ints:
        """(N, C) of 0 and 1: the labels whose probability reaches their threshold."""
        return (p >= np.array(self.thresholds or [0.5] * p.shape[1])).astype(np.int64)

    def decide(self, p: Floats) -> Ints:
        """(N,): the class that is answered."""
        return decide(p, self.offsets)

    @property
    def note(self) -> str:
        """Caveat of the answers in one line; empty if they are the network's own."""
        parts = []
        if not self.needs_network:
            parts.append("answers are those of a linear model of words alone, the best on validation")
        elif self.linear is not None:
            parts.append(f"answers are averages: {self.weight:.2f} × the network + {1 - self.weight:.2f} × a linear model of words")
        if (self.network_weight, self.linear_weight) != (1.0, 1.0):
            parts.append(f"logits are {self.network_weight:.2f} × the network + {self.linear_weight:.2f} × the linear model")
        if self.temperature != 1.0:
            parts.append(f"probabilities are calibrated (temperature {self.temperature:.2f})")
        if len(self.offsets) == 2:
            rarer = int(self.offsets[1] < self.offsets[0])
            threshold = 1 / (1 + np.exp(self.offsets[1 - rarer] - self.offsets[rarer]))
            parts.append(f"the rarer class is answered from a probability of {100 * threshold:.2g} % on")
        elif self.offsets:
            parts.append("rare classes are answered from lower probabilities on")
        return "; ".join(parts)

    def describe_choice(self, logits: Floats, texts: Sequence[str], labels: Ints) -> str:
        """What was chosen on these validation examples and its effect there, in one line; empty if nothing was."""
        if len(labels) < FEWEST:
            few = f"validation has {format_count(len(labels), 'example')}, too few to choose anything by"
            return f"{few}; {self.note}" if self.note else few
        if not self.note:
            return ""
        plain = probabilities(logits + np.array(self.log_shares) if self.log_shares else logits, several=self.several)
        before, after = (log_loss(p, labels) for p in (plain, self.probabilities(logits, texts)))
        effect = f"whose loss goes from {before:.4f} to {after:.4f}" if after < before else "with room for errors that they do not show"
        return f"{self.note}; chosen on {format_count(len(labels), 'validation example')}, {effect}"

    # ---------------------------------------------------------------------------------------------------------------- files

    def save(self, folder: Path) -> None:
        """Two files of a run: `answers.json`, and `linear.safetensors` where there is a linear part."""
        if self.linear is not None:
            self.linear.save(folder / LINEAR)
        keys = [one.name for one in fields(self) if one.name != "linear"]
        write_json(folder / ANSWERS, {"linear": self.linear is not None} | {key: getattr(self, key) for key in keys})

    @classmethod
    def load(cls, folder: Path, *, several: bool) -> "Answers":
        """Load those of a run; a softmax if it has none (unfinished, or an older version)."""
        path = folder / ANSWERS
        if not path.is_file():
            return cls(several=several)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            linear = kept.pop("linear")
            made = cls(**kept)
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise RunError(f"is damaged: {error}", file=path) from None
        return replace(made, linear=LinearModel.load(folder / LINEAR)) if linear else made


def _temperature(logits: Floats, labels: Ints, several: bool, weights: Floats | None = None) -> float:
    """Fit the temperature, between 1/20 and 20."""
    doubt = 1 / (len(labels) + 2)

    def loss(t: float) -> float:
        p = probabilities(logits, float(np.exp(t)), several=several)
        return (1 - doubt) * log_loss(p, labels, weights) + doubt * log_loss(1 - p, labels, weights)

    return float(np.exp(_lowest(loss, -3.0, 3.0)))


def _stack_weights(network: Floats, linear: Floats, labels: Ints, weights: Floats | None = None) -> tuple[float, float]:
    """The weights of both parts with the lowest loss: on these examples never worse than either part alone."""
    from scipy.optimize import minimize

    doubt, several = 1 / (len(labels) + 2), labels.ndim == 2

    def loss(w: Floats) -> float:
        p = probabilities(w[0] * network + w[1] * linear, several=several)
        return (1 - doubt) * log_loss(p, labels, weights) + doubt * log_loss(1 - p, labels, weights)

    starts = ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
    found = min((minimize(loss, start, method="L-BFGS-B", bounds=[(0.0, 20.0)] * 2).x for start in starts), key=loss)
    return float(found[0]), float(found[1])


def _weight(network: Floats, linear: Floats, labels: Ints) -> float:
    return _lowest(lambda a: log_loss(a * network + (1 - a) * linear, labels), 0.0, 1.0)


def _lowest(loss: Any, low: float, high: float) -> float:
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-4}).x)


def best_thresholds(p: Floats, labels: Ints) -> list[float]:
    """For each label the threshold with the best F1, in the middle of the gap where it lies; 0.5 for a label that never occurs.

    Going down the probabilities, after the k likeliest texts TP = those of them that have the label, and F1 = 2 TP / (k + positives).
    """
    found = []
    for own, true in zip(p.T, labels.T, strict=True):
        order = np.argsort(-own, kind="stable")
        ranked, positives = own[order], int(true.sum())
        if not positives:
            found.append(0.5)
            continue
        f1 = 2 * np.cumsum(true[order]) / (np.arange(1, len(own) + 1) + positives)
        f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal probabilities cannot be told apart
        k = int(f1.argmax())
        below = ranked[k + 1] if k + 1 < len(ranked) else 0.0
        found.append(float((ranked[k] + below) / 2))
    return found
