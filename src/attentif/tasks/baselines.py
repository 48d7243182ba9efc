"""Simple systems that a model must be compared with, fitted on the same training split and scored on the same test split.

Texts are classified by TF-IDF + logistic regression, and by its naive-Bayes-weighted form (`labels/linear.py`; Wang & Manning 2012), one
class against the rest where there are more than two.
Languages are measured against n-grams (`text/ngram.py`), translations against the closest training example.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.classification.calibration import Answers
from attentif.tasks.classification.imbalance import Metric, shares_of
from attentif.tasks.classification.linear import WORDS_AND_MARKS, LinearModel
from attentif.tasks.metrics import (
    Interval,
    bits_per_byte,
    classification_scores,
    confusion,
    label_scores,
    perplexity,
    ranking_scores,
    text_scores,
)
from attentif.text.ngram import NGramConfig, TokenText
from attentif.view.words import Text
from attentif.view.words import say as in_words

Ints = NDArray[np.int64]
MAJORITY = Text("classe majoritaire", "majority class")
USUAL = Text("les étiquettes de plus d'un texte sur deux", "the labels of more than half the texts")
TFIDF = Text("TF-IDF + régression logistique", "TF-IDF + logistic regression")
WEIGHTED = Text("n-grammes pondérés bayésiens + régression logistique", "naive-Bayes-weighted logistic regression")
MOST_NGRAM_TOKENS = 20_000_000  # of training text that n-grams are counted in: about 3 GB while they are
NEAREST_CHUNK = 200  # test rows compared at once with all of the training split


@dataclass
class _Clock:
    seconds: float = field(default=0.0)


@contextmanager
def measure_time() -> Iterator[_Clock]:
    clock, start = _Clock(), time.perf_counter()
    try:
        yield clock
    finally:
        clock.seconds = time.perf_counter() - start


# -------------------------------------------------------------------------------------------------------- classification


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts and the numbers of their classes."""

    texts: Sequence[str]
    labels: Ints


@dataclass(frozen=True, slots=True)
class LinearBaseline:
    """A linear model of words, with what was chosen on validation; `answers.linear` is fitted on the training split."""

    name: Text
    answers: Answers
    seconds: float


def linear_baselines(
    train: Labelled, valid: Labelled, classes: int, *, linear: LinearModel | None = None, metric: Metric = "accuracy"
) -> Iterator[LinearBaseline]:
    """TF-IDF + logistic regression, and its naive-Bayes-weighted form, which may have been fitted already."""
    shares = shares_of(train.labels, classes) if train.labels.ndim == 1 else None
    fits: list[tuple[Text, Callable[[], LinearModel]]] = [
        (TFIDF, lambda: LinearModel.fit_plain(train.texts, train.labels, classes)),
        (WEIGHTED, lambda: linear or LinearModel.fit(train.texts, train.labels, classes)),
    ]
    for name, fit in fits:
        with measure_time() as clock:
            answers = Answers.alone(fit(), valid.texts, valid.labels, classes, shares=shares, metric=metric)
        yield LinearBaseline(name, answers, clock.seconds)


def classification_baselines(
    train: Labelled,
    valid: Labelled,
    test: Labelled,
    classes: int,
    say: Say,
    *,
    linear: LinearModel | None = None,
    metric: Metric = "accuracy",
) -> list[Baseline]:
    """Majority class, TF-IDF + logistic regression, and its naive-Bayes-weighted form; what is answered is chosen for the same score."""
    majority = np.full(len(test.labels), np.bincount(train.labels, minlength=classes).argmax())
    found = [Baseline(MAJORITY, *classification_scores(confusion(test.labels, majority, classes)))]
    for one in linear_baselines(train, valid, classes, linear=linear, metric=metric):
        with measure_time() as clock:
            assert one.answers.linear is not None
            p = one.answers.of_linear(one.answers.linear.logits(test.texts, classes))
        scores, intervals = classification_scores(confusion(test.labels, one.answers.decide(p), classes))
        ranked, ranked_intervals = ranking_scores(p, test.labels)
        found.append(Baseline(one.name, scores | ranked, intervals | ranked_intervals, one.seconds + clock.seconds))
    for baseline in found:
        name, score = metric.replace("_", " "), 100 * baseline.scores[metric]
        say(f"baseline {in_words(baseline.name, 'en')}: {name} {score:.1f} % ({baseline.seconds:.1f} s)")
    return found


def several_baselines(train: Labelled, valid: Labelled, test: Labelled, say: Say, linear: LinearModel | None = None) -> list[Baseline]:
    """The same where a text may have several labels, one against the rest; thresholds are chosen on validation, as the model's are."""
    classes = train.labels.shape[1]

    def usual() -> Ints:
        return np.tile((train.labels.mean(0) > 0.5).astype(np.int64), (len(test.labels), 1))

    systems: list[tuple[Text, Callable[[], Ints]]] = [(USUAL, usual)]
    linear_ones = linear_baselines(train, valid, classes, linear=linear)
    systems += [(one.name, partial(_cut, one.answers, test.texts, classes)) for one in linear_ones]
    found = []
    for name, predict in systems:
        with measure_time() as clock:
            predicted = predict()
        scores, intervals = label_scores(test.labels, predicted)
        found.append(Baseline(name, scores, intervals, clock.seconds))
        say(f"baseline {name.en}: micro F1 {100 * scores['micro_f1']:.1f} % ({clock.seconds:.1f} s)")
    return found


def _cut(answers: Answers, texts: Sequence[str], classes: int) -> Ints:
    assert answers.linear is not None
    return answers.cut(answers.of_linear(answers.linear.logits(texts, classes, several=True)))


# ------------------------------------------------------------------------------------------------------------- language


def language_baselines(
    train: Ints, test: Ints, *, vocab: int, end: int, text_bytes: int, say: Say, orders: Sequence[int] = (1, 5)
) -> list[Baseline]:
    """Single tokens by their frequency, and n-grams smoothed by Kneser and Ney; `end` ends each document."""
    found = []
    for order in orders:
        name = Text("fréquence des jetons", "token frequencies")
        if order > 1:
            name = Text(f"{order}-grammes (Kneser-Ney)", f"{order}-grams (Kneser-Ney)")
        with measure_time() as clock:
            model = NGramConfig(order=order).build()
            model.fit(TokenText(train, vocab, end))
            nats = -float(np.log(model.probabilities(test)).sum())
        loss = nats / len(test)
        scores = {"loss": loss, "perplexity": perplexity(loss), "bits_per_byte": bits_per_byte(nats, text_bytes)}
        found.append(Baseline(name, scores, seconds=clock.seconds))
        say(f"baseline {name.en}: {scores['bits_per_byte']:.3f} bits per byte ({clock.seconds:.1f} s)")
    return found


# ---------------------------------------------------------------------------------------------------------- translation


def translation_baselines(
    train: tuple[Sequence[str], Sequence[str]], test: tuple[Sequence[str], Sequence[str]], say: Say, draws: int = 0
) -> list[Baseline]:
    """The target of the most similar training source: what memory alone can do. Both splits are (sources, targets)."""
    name = Text("réponse de l'exemple le plus proche", "answer of the closest example")
    with measure_time() as clock:
        written = [train[1][row] for row in nearest(train[0], test[0])]
    measured = text_scores(written, test[1], draws=draws)
    say(f"baseline {name.en}: BLEU {measured.scores['bleu']:.1f} ({clock.seconds:.1f} s)")
    intervals: dict[str, Interval] = measured.intervals
    return [Baseline(name, measured.scores, intervals, clock.seconds)]


def nearest(known: Sequence[str], asked: Sequence[str]) -> Ints:
    """For each asked text, the known one whose TF-IDF vector points the same way most."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORDS_AND_MARKS, dtype=np.float32)
    x = vectorizer.fit_transform(known).T.tocsr()
    z = vectorizer.transform(asked)
    parts = [np.asarray((z[start : start + NEAREST_CHUNK] @ x).argmax(1)).ravel() for start in range(0, z.shape[0], NEAREST_CHUNK)]
    return np.concatenate(parts).astype(np.int64)
