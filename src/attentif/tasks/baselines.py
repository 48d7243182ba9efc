"""Simple systems that a model must be compared with, fitted on the same training split and scored on the same test split.

TF-IDF weighs a term by how rare it is; its naive-Bayes-weighted form by how much it speaks for a class (Wang & Manning 2012):

    r_c = log (p / ‖p‖₁) / (q / ‖q‖₁),   p = 1 + Σ_{y = c} f,   q = 1 + Σ_{y ≠ c} f        logistic regression on f ∘ r_c

with f the 0/1 presence of words and pairs of words; one classifier a class against the rest where there are more than two.
Languages are measured against n-grams with absolute discounting (Ney, Essen & Kneser 1994), translations against the closest
training example.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.metrics import Floats, Interval, bits_per_byte, classification_scores, confusion, perplexity, text_scores
from attentif.tasks.task import Baseline, Say
from attentif.view.words import Text

Ints = NDArray[np.int64]
WORDS_AND_MARKS = r"\w+|[^\w\s]"  # "!" and "?" speak for a class too
MOST_NGRAM_TOKENS = 20_000_000  # of training text that n-grams are counted in: about 2 GB while they are
NEAREST_CHUNK = 200  # test rows compared at once with all of the training split


@dataclass
class _Clock:
    seconds: float = field(default=0.0)


@contextmanager
def _timed() -> Iterator[_Clock]:
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


def classification_baselines(train: Labelled, test: Labelled, classes: int, say: Say) -> list[Baseline]:
    """Majority class, TF-IDF + logistic regression, and its naive-Bayes-weighted form."""
    systems: list[tuple[Text, Callable[[Labelled, Labelled, int], Ints]]] = [
        (Text("classe majoritaire", "majority class"), _majority),
        (Text("TF-IDF + régression logistique", "TF-IDF + logistic regression"), _tfidf),
        (Text("n-grammes pondérés bayésiens + régression logistique", "naive-Bayes-weighted logistic regression"), _naive_bayes),
    ]
    found = []
    for name, predict in systems:
        with _timed() as clock:
            predicted = predict(train, test, classes)
        scores, intervals = classification_scores(confusion(test.labels, predicted, classes))
        found.append(Baseline(name, scores, intervals, clock.seconds))
        say(f"baseline {name.en}: accuracy {100 * scores['accuracy']:.1f} % ({clock.seconds:.1f} s)")
    return found


def _majority(train: Labelled, test: Labelled, classes: int) -> Ints:
    return np.full(len(test.labels), np.bincount(train.labels, minlength=classes).argmax())


def _tfidf(train: Labelled, test: Labelled, classes: int) -> Ints:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORDS_AND_MARKS)
    x, z = vectorizer.fit_transform(train.texts), vectorizer.transform(test.texts)
    return _one_against_rest(train.labels, classes, lambda own: _logistic(x, own, z, strength=10.0))


def _naive_bayes(train: Labelled, test: Labelled, classes: int) -> Ints:
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=WORDS_AND_MARKS, dtype=np.float64)
    x, z = vectorizer.fit_transform(train.texts), vectorizer.transform(test.texts)

    def decide(own: Ints) -> Floats:
        r = log_count_ratio(x, own)
        return _logistic(x.multiply(r).tocsr(), own, z.multiply(r).tocsr(), strength=1.0)

    return _one_against_rest(train.labels, classes, decide)


def log_count_ratio(x: Any, own: Ints) -> Floats:
    """(1, terms): how much more often a term stands in the texts with own = 1 than in the others, as a logarithm."""
    p, q = (1 + np.asarray(x[own == side].sum(0)) for side in (1, 0))
    return np.log(p / p.sum()) - np.log(q / q.sum())


def _logistic(x: Any, own: Ints, z: Any, strength: float) -> Floats:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver="liblinear", random_state=0).fit(x, own).decision_function(z)


def _one_against_rest(labels: Ints, classes: int, decide: Callable[[Ints], Floats]) -> Ints:
    """The class that is surest of itself; `decide` fits one class (1) against the rest (0) and scores the test rows."""
    if classes == 2:
        return (decide((labels == 1).astype(np.int64)) > 0).astype(np.int64)
    return np.stack([decide((labels == c).astype(np.int64)) for c in range(classes)]).argmax(0)


# ------------------------------------------------------------------------------------------------------------- language


def language_baselines(train: Ints, test: Ints, *, vocab: int, end: int, text_bytes: int, say: Say) -> list[Baseline]:
    """Single tokens by their frequency, and 3-grams; `end` ends each document."""
    found = []
    for order, name in ((1, Text("fréquence des jetons", "token frequencies")), (3, Text("3-grammes", "3-grams"))):
        with _timed() as clock:
            nats = -float(np.log(ngram_probabilities(train, test, order=order, vocab=vocab, end=end)).sum())
        loss = nats / len(test)
        scores = {"loss": loss, "perplexity": perplexity(loss), "bits_per_byte": bits_per_byte(nats, text_bytes)}
        found.append(Baseline(name, scores, seconds=clock.seconds))
        say(f"baseline {name.en}: {scores['bits_per_byte']:.3f} bits per byte ({clock.seconds:.1f} s)")
    return found


def ngram_probabilities(train: Ints, test: Ints, *, order: int, vocab: int, end: int) -> Floats:
    """The probability of each test token after the order - 1 tokens before it:

    P_1(w) = (c(w) + 1) / (n + V)      P_k(w | h) = max(c(hw) - d, 0) / c(h) + d · types(h) / c(h) · P_{k-1}(w | h')
    """
    if vocab**order >= 2**63:
        raise ValueError(f"{order}-grams over {vocab} tokens do not fit in 64 bits")
    counts = np.bincount(train, minlength=vocab)
    p = (counts[test] + 1.0) / (len(train) + vocab)
    known, asked = train, test  # the k-gram that ends at each place, as one number: the context's number · V + the token's
    for size in range(2, order + 1):
        known, asked = (_before(tokens, size - 1, end) * vocab ** (size - 1) + grams for tokens, grams in ((train, known), (test, asked)))
        grams, seen = np.unique(known, return_counts=True)
        contexts, first, types = np.unique(grams // vocab, return_index=True, return_counts=True)
        totals = np.add.reduceat(seen, first)
        once, twice = (seen == 1).sum(), (seen == 2).sum()
        d = once / max(once + 2 * twice, 1)
        gram_count = _looked_up(grams, seen, asked)
        total, distinct = _looked_up(contexts, totals, asked // vocab), _looked_up(contexts, types, asked // vocab)
        with np.errstate(invalid="ignore", divide="ignore"):
            finer = (np.maximum(gram_count - d, 0) + d * distinct * p) / total
        p = np.where(total > 0, finer, p)
    return p


def _before(tokens: Ints, steps: int, end: int) -> Ints:
    """The token `steps` places before each; documents' ends before the first."""
    return np.concatenate([np.full(steps, end, dtype=np.int64), tokens[:-steps]])[: len(tokens)]


def _looked_up(keys: Ints, values: Ints, asked: Ints) -> Ints:
    """values[keys == asked], 0 where there is none; `keys` are sorted."""
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, values[place], 0)


# ---------------------------------------------------------------------------------------------------------- translation


def translation_baselines(
    train: tuple[Sequence[str], Sequence[str]], test: tuple[Sequence[str], Sequence[str]], say: Say, draws: int = 0
) -> list[Baseline]:
    """The translation of the most similar training source: what memory alone can do. Both splits are (sources, targets)."""
    name = Text("traduction de l'exemple le plus proche", "translation of the closest example")
    with _timed() as clock:
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
