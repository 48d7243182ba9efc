"""Several labels at once, or none: each label is a question of its own, answered by yes or no.

    p_c = σ(z_c)        L = Σ_c -(y_c ln p_c + (1 - y_c) ln(1 - p_c))        answered: the labels with p_c ≥ θ_c

θ is chosen label by label on the validation split (`calibration.py`). F1 of all labels together is what counts: labels are often rare, and
answering "none" would be right about nearly all of them.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from attentif.data import DataConfig, Splits, Table
from attentif.data.multi_label import labels_of, load_several, several_rows
from attentif.models import Model
from attentif.tasks.answers import Baseline, Evaluation, Prediction
from attentif.tasks.base import Example, Prepared, Say
from attentif.tasks.baselines import Labelled, several_baselines
from attentif.tasks.classification.calibration import log_loss
from attentif.tasks.classification.classify import WORST, Classify, ClassifyConfig, ClassifyState
from attentif.tasks.classification.data import LabelledTexts, show_error
from attentif.tasks.classification.imbalance import Balance
from attentif.tasks.classification.linear import Floats
from attentif.tasks.classification.report import LabelDetails, TextDetails, TextError, multi_label_sections
from attentif.tasks.classification.scores import unknown_label
from attentif.tasks.metrics import Interval, by_group, by_length, label_scores, share_of
from attentif.tasks.ragged import Ints
from attentif.view.blocks import Section

NONE = "-"  # what is shown where a text has no label


class Several(Classify):
    config: ClassifyConfig
    metric = "micro_f1"

    def metric_for(self, state: ClassifyState) -> str:
        return self.metric

    def _balance(self, numbers: Ints, labels: Sequence[str]) -> Balance:
        return Balance()  # each label has a threshold of its own

    def _load(self, data: DataConfig, say: Say) -> Splits:
        return load_several(data, self.config.separator, say)

    def _rows(self, data: DataConfig, say: Say) -> tuple[Table, list[str]]:
        return several_rows(data, self.config.separator, say)

    def _numbers(self, table: Table, labels: Sequence[str]) -> Ints:
        """(N, C) of 0 and 1."""
        number = {label: place for place, label in enumerate(labels)}
        found = np.zeros((len(table), len(labels)), dtype=np.int64)
        for row, kept in enumerate(table["labels"]):
            for label in labels_of(kept):
                if label not in number:
                    raise unknown_label(label, table.place(row), labels)
                found[row, number[label]] = 1
        return found

    def _loss(self, labels: Tensor, weights: Tensor | None, logits: Tensor) -> Tensor:
        smooth = self.config.label_smoothing
        wanted = labels.to(logits.dtype) * (1 - smooth) + smooth / 2
        return F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")

    def _right(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Texts all of whose labels are right, at thresholds of one half."""
        return ((logits > 0) == (labels > 0)).all(-1).sum()

    def _scores(self, state: ClassifyState, p: Floats, labels: Ints) -> dict[str, float]:
        scores, _ = label_scores(labels, state.answers.cut(p), draws=2)
        return scores | {"loss": log_loss(p, labels)}

    def _with_intervals(self, state: ClassifyState, p: Floats, labels: Ints) -> tuple[dict[str, float], dict[str, Interval]]:
        return label_scores(labels, state.answers.cut(p))

    def _measure(
        self, model: Model, state: ClassifyState, dataset: LabelledTexts, p: Floats, network: Floats, uncalibrated: Floats
    ) -> tuple[dict[str, float], dict[str, Interval], TextDetails]:
        from attentif.view.figures.classify import reliability

        true, predicted = dataset.labels, state.answers.cut(p)
        exact = (true == predicted).all(1)
        scores, intervals = self._with_intervals(state, p, true)
        sure = lambda q: reliability(np.maximum(q, 1 - q).ravel(), ((q >= 0.5) == (true > 0)).ravel()).ece
        counts = {"right": true & predicted, "true": true, "predicted": predicted}
        details: LabelDetails = {
            "labels": list(state.labels),
            "by_label": {name: values.sum(0).tolist() for name, values in counts.items()},
            "thresholds": state.answers.thresholds or [0.5] * p.shape[1],
            "ece": {"before": sure(uncalibrated), "network": sure(network), "after": sure(p)},
            "by_length": by_length(dataset.lengths, share_of(exact)),
            "worst": self._worst_of_several(model, state, dataset, p, predicted),
        }
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, lambda rows: {"exact_match": float(exact[rows].mean())})
        return scores | {"loss": log_loss(p, true), "ece": details["ece"]["after"]}, intervals, details

    def _worst_of_several(self, model: Model, state: ClassifyState, dataset: LabelledTexts, p: Floats, predicted: Ints) -> list[TextError]:
        """The answers that were least likely to be wrong: a text and its label, by what the model thought of it."""
        wrong = np.argwhere(predicted != dataset.labels)
        sure = np.where(predicted == 1, p, 1 - p)[tuple(wrong.T)]
        found = []
        for place in np.argsort(-sure, kind="stable")[:WORST]:
            row, label = (int(number) for number in wrong[place])
            sign = 1 if predicted[row, label] else -1
            names = _names(state, dataset.labels[row]), _names(state, predicted[row])
            found.append(show_error(model, dataset, row, names, float(sure[place]), partial(_towards, label, sign)))
        return found

    def baselines(self, prepared: Prepared[ClassifyState, LabelledTexts], say: Say) -> list[Baseline]:
        train, valid, test = (Labelled(split.joined_texts(), split.labels) for split in prepared.splits)
        return several_baselines(train, valid, test, say, linear=self._fit_linear(prepared))

    def _answer(self, state: ClassifyState, example: Example, p: Floats) -> Prediction:
        """The labels that reach their thresholds; the probability of each label is its own, they do not add up to 1."""
        order = np.argsort(-p, kind="stable")
        scores = {state.labels[c]: float(p[c]) for c in order}
        chosen = state.answers.cut(p[None])[0]
        return Prediction(" / ".join(example.values()), ", ".join(state.labels[c] for c in order if chosen[c]), None, scores)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return multi_label_sections(evaluation)


def _towards(label: int, sign: int, logits: Tensor) -> Tensor:
    return sign * logits[:, label]


def _names(state: ClassifyState, chosen: Ints) -> str:
    return ", ".join(state.labels[c] for c in np.flatnonzero(chosen)) or NONE
