"""Scores, and how far chance alone could have moved them.

Intervals are percentile bootstraps (Efron 1979) at 95 %: the test set is drawn again with replacement and scored again. For what is
counted this needs no drawing example by example: n draws with replacement from the cells of a table are one multinomial draw. Where all n
examples are right, or none is, every draw is the same and would promise certainty; the interval is then the exact one of a share
(Clopper & Pearson 1934): from 0.025^(1/n) to 1, or from 0 to 1 - 0.025^(1/n).

    F1_c = 2 TP_c / (2 TP_c + FP_c + FN_c),   macro F1 = mean over classes        perplexity = exp(loss)
    bits per byte = total nats / (ln 2 · bytes of the text), which no choice of tokens can flatter, unless some are unknown
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Interval = tuple[float, float]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

DRAWS = 2000
LEVEL = 0.95


def interval(draws: ArrayLike, examples: int = 0) -> Interval:
    """The middle 95 % of bootstrap draws; of a share among so many examples, the exact interval where all draws are 1, or all 0."""
    values = np.asarray(draws, dtype=np.float64)
    if examples and values.min() == values.max() and values.min() in (0, 1):
        bound = ((1 - LEVEL) / 2) ** (1 / examples)
        return (bound, 1.0) if values.min() else (0.0, 1 - bound)
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


# -------------------------------------------------------------------------------------------------------- classification


def confusion(true: ArrayLike, predicted: ArrayLike, classes: int) -> Counts:
    """(C, C) counts, a row a true class."""
    cells = np.asarray(true, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def accuracy(table: ArrayLike) -> Any:
    """Share of the diagonal, of one table (C, C) or of many (..., C, C)."""
    counts = np.asarray(table, dtype=np.float64)
    return np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1))


def f1_by_class(table: ArrayLike) -> Floats:
    """(..., C); a class that is neither true nor predicted anywhere has 0."""
    counts = np.asarray(table, dtype=np.float64)
    both = counts.sum(-1) + counts.sum(-2)  # TP + FN and TP + FP
    return 2 * np.diagonal(counts, axis1=-2, axis2=-1) / np.maximum(both, 1)


def macro_f1(table: ArrayLike) -> Any:
    """Mean over the classes that occur in the table: one that is absent from a draw says nothing."""
    counts = np.asarray(table, dtype=np.float64)
    present = counts.sum(-1) + counts.sum(-2) > 0
    return (f1_by_class(counts) * present).sum(-1) / np.maximum(present.sum(-1), 1)


def classification_scores(table: Counts, seed: int = 0) -> tuple[dict[str, float], dict[str, Interval]]:
    """Accuracy and macro F1 with their intervals, from the confusion matrix alone."""
    total = int(table.sum())
    if total == 0:
        raise ValueError("no example was scored")
    scores = {"accuracy": float(accuracy(table)), "f1": float(macro_f1(table))}
    draws = np.random.default_rng(seed).multinomial(total, table.ravel() / total, size=DRAWS).reshape(DRAWS, *table.shape)
    return scores, {"accuracy": interval(accuracy(draws), total), "f1": interval(macro_f1(draws), total)}


def label_scores(true: Counts, predicted: Counts, draws: int = 500, seed: int = 0) -> tuple[dict[str, float], dict[str, Interval]]:
    """Several labels at once, (N, C) of 0 and 1: F1 of all labels together and mean over labels, and texts whose labels are all right.

    Texts are drawn again, as weights on what each of them adds to the counts.
    """
    if not len(true):
        raise ValueError("no example was scored")
    right, either = true & predicted, true + predicted
    exact = (true == predicted).all(1)
    weights = np.random.default_rng(seed).multinomial(len(true), np.full(len(true), 1 / len(true)), size=draws)
    weights = np.concatenate([np.ones((1, len(true)), dtype=np.int64), weights])  # the first: as it is
    hits, both = weights @ right, weights @ either  # TP, and 2 TP + FP + FN, of each label
    present = both > 0  # a label that is absent from a draw says nothing
    found = {
        "micro_f1": 2 * hits.sum(1) / np.maximum(both.sum(1), 1),
        "f1": (2 * hits / np.maximum(both, 1)).sum(1) / np.maximum(present.sum(1), 1),
        "exact_match": weights @ exact / len(true),
    }
    scores = {key: float(values[0]) for key, values in found.items()}
    return scores, {key: interval(values[1:], len(true)) for key, values in found.items()}


def share(hits: int, total: int, seed: int = 0) -> tuple[float, Interval]:
    """A share and its interval."""
    if total == 0:
        raise ValueError("no example was scored")
    draws = np.random.default_rng(seed).binomial(total, hits / total, size=DRAWS)
    return hits / total, interval(draws / total, total)


def share_of(hits: ArrayLike) -> Callable[[Counts], tuple[float, Interval]]:
    """The share of hits among some rows, for `by_length`."""
    right = np.asarray(hits, dtype=bool)
    return lambda rows: share(int(right[rows].sum()), len(rows))


# ------------------------------------------------------------------------------------------------------------- language


def mean_interval(totals: ArrayLike, counts: ArrayLike, draws: int = 500, seed: int = 0) -> Interval:
    """Of Σ totals / Σ counts, drawing pieces of text (windows), within which tokens are not independent."""
    sums, sizes = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]  # a piece without a count says nothing
    if not len(sums):
        return float("nan"), float("nan")
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(0, len(sums), len(sums)) for _ in range(draws))
    return interval([sums[rows].sum() / sizes[rows].sum() for rows in drawn])


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that is beyond a float."""
    return math.exp(loss) if loss < 700 else math.inf


def bits_per_byte(nats: float, byte_count: int) -> float:
    return nats / (math.log(2) * byte_count) if byte_count else math.nan


# ---------------------------------------------------------------------------------------------------------- translation


@dataclass(frozen=True, slots=True)
class TextScores:
    """Scores of written answers against one reference each; the signatures say how sacrebleu worked them out."""

    scores: dict[str, float]
    intervals: dict[str, Interval]
    signatures: dict[str, str]


def text_scores(written: Sequence[str], references: Sequence[str], *, draws: int = 0, seed: int = 0) -> TextScores:
    """BLEU (Papineni 2002), chrF (Popović 2015), both by sacrebleu (Post 2018), and exact match; `draws` > 0 for intervals."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scores: dict[str, float] = {}
    intervals: dict[str, Interval] = {}
    signatures: dict[str, str] = {}
    for key, scorer in (("bleu", BLEU(force=True)), ("chrf", CHRF())):
        # a corpus score is a function of sums over sentences, so the sums are drawn again, not the sentences scored again
        sums = np.asarray(scorer._extract_corpus_statistics(list(written), [list(references)]), dtype=np.int64)
        score = lambda rows, scorer=scorer, sums=sums: float(scorer._compute_score_from_stats(sums[rows].sum(0).tolist()).score)
        scores[key] = score(slice(None))
        signatures[key] = str(scorer.get_signature())
        if draws:
            rng = np.random.default_rng(seed)
            intervals[key] = interval([score(rng.integers(0, len(sums), len(sums))) for _ in range(draws)])
    hits = sum(exactly(a, b) for a, b in zip(written, references, strict=True))
    scores["exact_match"], intervals["exact_match"] = share(hits, len(references), seed)
    return TextScores(scores, intervals, signatures)


def exactly(written: str, reference: str) -> bool:
    """The same words in the same order; spaces at the ends and doubled do not count."""
    return written.split() == reference.split()


# --------------------------------------------------------------------------------------------------------------- slices


def by_length(lengths: ArrayLike, score: Callable[[Counts], tuple[float, Interval]], parts: int = 5) -> list[dict[str, Any]]:
    """`score(rows)` of the shortest, ..., the longest examples: as many in each part as ties allow."""
    sizes = np.asarray(lengths, dtype=np.int64)
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, parts + 1), method="higher")) if len(sizes) else sizes
    found = []
    for place, high in enumerate(edges[1:] if len(edges) > 1 else edges):
        low = int(edges[0]) if place == 0 else int(edges[place]) + 1
        rows = np.flatnonzero((sizes >= low) & (sizes <= high))
        if len(rows):
            value, around = score(rows)
            found.append({"low": low, "high": int(high), "value": value, "interval": list(around), "examples": len(rows)})
    return found


def by_group(groups: Sequence[str], score: Callable[[Counts], Mapping[str, float]], most: int = 20) -> list[dict[str, Any]]:
    """`score(rows)` for each group of examples, the largest groups first; examples without a group are scored together."""
    names, inverse, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    largest = np.argsort(-sizes, kind="stable")[:most]
    return [{"group": str(names[g]) or "—", "examples": int(sizes[g]), **score(np.flatnonzero(inverse == g))} for g in largest]
