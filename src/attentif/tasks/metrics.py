"""Scores with confidence intervals.

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
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attentif.view.words import Text

Interval = tuple[float, float]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

DRAWS = 2000
MOST_NAMES = 8  # classes that a warning names
DRAWN_CELLS = 8_000_000  # numbers held at once while scores are drawn again
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


def balanced_accuracy(table: ArrayLike) -> Any:
    """Mean recall over the classes that occur in the truth."""
    counts = np.asarray(table, dtype=np.float64)
    true = counts.sum(-1)
    recall = np.diagonal(counts, axis1=-2, axis2=-1) / np.maximum(true, 1e-12)
    return recall.sum(-1) / np.maximum((true > 0).sum(-1), 1)


OF_COUNTS: dict[str, Callable[[ArrayLike], Any]] = {"accuracy": accuracy, "f1": macro_f1, "balanced_accuracy": balanced_accuracy}


def classification_scores(table: Counts) -> tuple[dict[str, float], dict[str, Interval]]:
    """Accuracy, macro F1 and balanced accuracy with their intervals, from the confusion matrix alone."""
    total = int(table.sum())
    if total == 0:
        raise ValueError("no example was scored")
    drawn = max(100, min(DRAWS, DRAWN_CELLS // table.size))
    draws = np.random.default_rng(0).multinomial(total, table.ravel() / total, size=drawn).reshape(drawn, *table.shape)
    scores = {key: float(score(table)) for key, score in OF_COUNTS.items()}
    return scores, {key: interval(score(draws), total) for key, score in OF_COUNTS.items()}


def never_answered(details: Mapping[str, Any]) -> list[Text]:
    """Warn about classes that have examples but are never predicted."""
    table = np.asarray(details.get("confusion", np.zeros((0, 0))))
    names = [details["labels"][c] for c in range(len(table)) if table[c].sum() and not table[:, c].sum()]
    if not names:
        return []
    shown = ", ".join(names[:MOST_NAMES]) + (" ..." if names[MOST_NAMES:] else "")
    warning = Text(
        "jamais répondu, alors que des exemples l'attendaient : {names}", "never answered, though some examples are of it: {names}"
    )
    return [warning.with_(names=shown)]


def ranking_scores(p: Floats, true: Counts) -> tuple[dict[str, float], dict[str, Interval]]:
    """Area under the ROC curve and average precision of (N, C) probabilities: of the second of two classes, else the mean of one against
    the rest over the classes that occur. Nothing where all examples have one class."""
    columns = [c for c in ((1,) if p.shape[1] == 2 else range(p.shape[1])) if 0 < (true == c).sum() < len(true)]
    if not columns:
        return {}, {}
    draws = min(200, DRAWN_CELLS // max(1, len(true) * len(columns)))
    weights = np.ones((1, len(true)))
    if draws >= 50:
        drawn = np.random.default_rng(0).multinomial(len(true), np.full(len(true), 1 / len(true)), size=draws)
        weights = np.concatenate([weights, drawn])
    areas = np.array([_areas(p[:, c], true == c, weights) for c in columns])  # (classes, 2, draws)
    known = ~np.isnan(areas)  # a class that is absent from a draw says nothing
    found = np.where(known, areas, 0).sum(0) / np.maximum(known.sum(0), 1)
    names = ("auc", "average_precision")
    scores = {name: float(values[0]) for name, values in zip(names, found, strict=True)}
    drawn_well = [values[1:][some[1:]] for values, some in zip(found, known.any(0), strict=True)]
    return scores, {name: interval(values) for name, values in zip(names, drawn_well, strict=True) if len(values) >= 50}


def _areas(score: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats]:
    """AUC and average precision of one class, for each row of weights (draws, N); equal scores are one threshold."""
    order = np.argsort(-score, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(score[order]) != 0])
    hits, misses = (np.add.reduceat(weights[:, order] * side[order], first, axis=1) for side in (positive, ~positive))
    found, all_hits, all_misses = hits.cumsum(1), hits.sum(1), misses.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = (misses * (found - hits / 2)).sum(1) / (all_hits * all_misses)
        precision = found / (found + misses.cumsum(1))
        return auc, np.nansum(hits * precision, axis=1) / all_hits


def precision_recall(score: Floats, positive: NDArray[np.bool_], points: int = 100) -> list[tuple[float, float, float]]:
    """(recall, precision, threshold) at up to so many thresholds, from the highest on."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    found = positive[order].cumsum()[last]
    kept = np.unique(np.linspace(0, len(last) - 1, points).astype(np.int64))
    return [(float(found[k] / found[-1]), float(found[k] / (last[k] + 1)), float(score[order][last[k]])) for k in kept]


def label_scores(true: Counts, predicted: Counts, draws: int = 500) -> tuple[dict[str, float], dict[str, Interval]]:
    """Several labels at once, (N, C) of 0 and 1: F1 of all labels together and mean over labels, and texts whose labels are all right.

    Texts are drawn again, as weights on what each of them adds to the counts.
    """
    if not len(true):
        raise ValueError("no example was scored")
    right, either = true & predicted, true + predicted
    exact = (true == predicted).all(1)
    weights = np.random.default_rng(0).multinomial(len(true), np.full(len(true), 1 / len(true)), size=draws)
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


def share(hits: int, total: int) -> tuple[float, Interval]:
    """A share and its interval."""
    if total == 0:
        raise ValueError("no example was scored")
    draws = np.random.default_rng(0).binomial(total, hits / total, size=DRAWS)
    return hits / total, interval(draws / total, total)


def share_of(hits: ArrayLike) -> Callable[[Counts], tuple[float, Interval]]:
    """The share of hits among some rows, for `by_length`."""
    right = np.asarray(hits, dtype=bool)
    return lambda rows: share(int(right[rows].sum()), len(rows))


# ------------------------------------------------------------------------------------------------------------- language


def mean_interval(totals: ArrayLike, counts: ArrayLike, draws: int = 500) -> Interval:
    """Interval of Σ totals / Σ counts by drawing windows, within which tokens are not independent."""
    sums, sizes = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]  # a piece without a count says nothing
    if not len(sums):
        return float("nan"), float("nan")
    rng = np.random.default_rng(0)
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


def text_scores(written: Sequence[str], references: Sequence[str], *, draws: int = 0) -> TextScores:
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
            rng = np.random.default_rng(0)
            intervals[key] = interval([score(rng.integers(0, len(sums), len(sums))) for _ in range(draws)])
    hits = sum(exactly(a, b) for a, b in zip(written, references, strict=True))
    scores["exact_match"], intervals["exact_match"] = share(hits, len(references))
    return TextScores(scores, intervals, signatures)


def exactly(written: str, reference: str) -> bool:
    """The same words in the same order; spaces at the ends and doubled do not count."""
    return written.split() == reference.split()


# --------------------------------------------------------------------------------------------------------------- slices


class Slice(TypedDict):
    """The score of the examples between two sizes."""

    low: int
    high: int
    value: float
    interval: list[float]  # empty: not computed
    examples: int


GroupScores = Mapping[str, Any]  # "group", "examples", and the group's scores by name


def by_length(lengths: ArrayLike, score: Callable[[Counts], tuple[float, Interval]], parts: int = 5) -> list[Slice]:
    """`score(rows)` of the shortest, ..., the longest examples: as many in each part as ties allow."""
    sizes = np.asarray(lengths, dtype=np.int64)
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, parts + 1), method="higher")) if len(sizes) else sizes
    found: list[Slice] = []
    for place, high in enumerate(edges[1:] if len(edges) > 1 else edges):
        low = int(edges[0]) if place == 0 else int(edges[place]) + 1
        rows = np.flatnonzero((sizes >= low) & (sizes <= high))
        if len(rows):
            value, around = score(rows)
            found.append({"low": low, "high": int(high), "value": value, "interval": [*around], "examples": len(rows)})
    return found


def by_group(groups: Sequence[str], score: Callable[[Counts], Mapping[str, float]], most: int = 20) -> list[GroupScores]:
    """`score(rows)` for each group of examples, the largest groups first; examples without a group are scored together."""
    names, inverse, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    largest = np.argsort(-sizes, kind="stable")[:most]
    return [{"group": str(names[g]) or "—", "examples": int(sizes[g]), **score(np.flatnonzero(inverse == g))} for g in largest]
