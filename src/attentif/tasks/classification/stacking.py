"""Texts with what a linear model says of them, and a network stacked on it (`linear_features.py` has the equation)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from attentif.models import Batch
from attentif.tasks.base import Say
from attentif.tasks.classification.data import LabelledTexts
from attentif.tasks.classification.linear_features import LinearFeatures, LinearReading
from attentif.tasks.predictors import LinearBatch, Predictor, Stacked

Parts = tuple[LabelledTexts, LabelledTexts, LabelledTexts]


def stack_splits(
    splits: Parts, classes: int, known: LinearFeatures | None, log_shares: Sequence[float], say: Say, *, tokens: bool
) -> tuple[Parts, LinearFeatures]:
    """Train, valid and test with readings, and the linear model: the `known` one of a run, or one fitted on train.

    Fitting waits until somebody asks for a reading of train or valid: to score a finished run, only that of test is needed. Validation is
    always read by the model that has not seen its labels.
    """
    train, valid, test = splits

    @cache
    def learn() -> tuple[LinearFeatures, LinearReading]:
        return LinearFeatures.fit(train.joined_texts(), train.labels, classes, train.tokenizer, train.ids, say, tokens=tokens)

    fitted = lambda: learn()[0]
    features = known or fitted()
    read = replace(train, reading=cache(lambda: learn()[1].relative_to(log_shares)), linear_features=fitted)
    return (read, _read_by(valid, fitted, classes, log_shares), _read_by(test, lambda: features, classes, log_shares)), features


def attach_reading(texts: LabelledTexts, features: LinearFeatures | None, classes: int, log_shares: Sequence[float]) -> LabelledTexts:
    """The texts with what the linear model says of them, if a network is stacked on one."""
    return texts if features is None else _read_by(texts, lambda: features, classes, log_shares)


def _read_by(texts: LabelledTexts, model: Callable[[], LinearFeatures], classes: int, log_shares: Sequence[float]) -> LabelledTexts:
    def read() -> LinearReading:
        return model().of(texts.joined_texts(), classes, texts.tokenizer, texts.ids).relative_to(log_shares)

    return replace(texts, reading=cache(read))


def stack_network(model: Predictor, batch: Batch) -> Predictor:
    """The network, on top of the linear model where the batch brings its logits."""
    return Stacked(model) if isinstance(batch, LinearBatch) else model
