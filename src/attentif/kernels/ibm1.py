"""IBM model 1: which word of a sentence translates which of the other, by expectation and maximisation (Brown et al. 1993).

    P(e | f) = Π_j 1/(l+1) Σ_{i=0}^{l} t(e_j | f_i)                       f_0: the empty word, which explains what has no source
    expectation     P(a_j = i | e, f) = t(e_j | f_i) / Σ_k t(e_j | f_k),   counts c(e | f) = Σ over all links of f to e
    maximisation    t(e | f) = c(e | f) / Σ_e' c(e' | f)

    f        source words of a sentence, the empty word first
    e        target words

t is kept for the pairs that stand in a sentence together, row by row of f, the words e of a row in order: found by bisection.
The likelihood never falls from one pass to the next.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentif.kernels.jit import compiled, inlined

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ragged(NamedTuple):
    """Sentences end to end, and where each begins (and the last ends)."""

    ids: Ints
    starts: Ints

    @classmethod
    def of(cls, sentences: Sequence[NDArray[np.integer]]) -> "Ragged":
        starts = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
        return cls(np.concatenate(sentences).astype(np.int64) if sentences else np.empty(0, dtype=np.int64), starts)


class Table(NamedTuple):
    """t(e | f): the words e that stand with each f, and their probabilities."""

    starts: Ints  # (F + 1,): where the row of each f begins
    words: NDArray[np.int32]
    t: Floats


def em_naive(pairs: list[tuple[list[int], list[int]]], t: dict[tuple[int, int], float]) -> tuple[dict[tuple[int, int], float], float]:
    """One pass by the equations over (source with the empty word, target) pairs: t(f, e) after it, and log P before it."""
    counts: dict[tuple[int, int], float] = defaultdict(float)
    likelihood = 0.0
    for source, target in pairs:
        for e in target:
            total = sum(t[f, e] for f in source)
            likelihood += float(np.log(total / len(source)))
            for f in source:
                counts[f, e] += t[f, e] / total
    sums: dict[int, float] = defaultdict(float)
    for (f, _), count in counts.items():
        sums[f] += count
    return {(f, e): count / sums[f] for (f, e), count in counts.items()}, likelihood


def uniform(source: Ragged, target: Ragged, source_words: int, target_words: int, at_once: int = 2000) -> Table:
    """Every pair that stands in some sentence together, all as likely."""
    keys = np.empty(0, dtype=np.int64)
    for first in range(0, len(source.starts) - 1, at_once):
        last = min(first + at_once, len(source.starts) - 1)
        lengths = [np.diff(side.starts[first : last + 1]) for side in (source, target)]
        links = np.empty(int((lengths[0] * lengths[1]).sum()), dtype=np.int64)
        _links(first, last, *source, *target, target_words, links)
        keys = np.union1d(keys, links)
    row, words = np.divmod(keys, target_words)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=source_words))])
    return Table(starts, words.astype(np.int32), np.full(len(keys), 1.0 / target_words))


def em_pass(source: Ragged, target: Ragged, table: Table) -> tuple[Table, float]:
    """The table after one pass, and log P of the targets before it."""
    counts, likelihood = np.zeros_like(table.t), np.zeros(1)
    _expect(*source, *target, *table, counts, likelihood)
    rows = np.repeat(np.arange(len(table.starts) - 1), np.diff(table.starts))
    sums = np.bincount(rows, counts, minlength=len(table.starts) - 1)
    return table._replace(t=counts / np.maximum(sums[rows], np.finfo(np.float64).tiny)), float(likelihood[0])


def look_up(table: Table, f: Ints, e: Ints) -> Floats:
    """t(e | f) of pairs, 0 where they never stood together."""
    found = np.zeros(len(f))
    _look_up(f, e, *table, found)
    return found


@inlined
def place_of(words: np.ndarray, low: int, high: int, word: int) -> int:
    """Where a word stands among words[low:high], which are in order; -1 where it does not."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else -1


@compiled()
def _links(
    first: int, last: int, source: np.ndarray, s_at: np.ndarray, target: np.ndarray, t_at: np.ndarray, width: int, links: np.ndarray
) -> None:
    n = 0
    for row in range(first, last):
        for i in range(s_at[row], s_at[row + 1]):
            for j in range(t_at[row], t_at[row + 1]):
                links[n] = source[i] * width + target[j]
                n += 1


@compiled()
def _expect(
    source: np.ndarray,
    s_at: np.ndarray,
    target: np.ndarray,
    t_at: np.ndarray,
    starts: np.ndarray,
    words: np.ndarray,
    t: np.ndarray,
    counts: np.ndarray,
    likelihood: np.ndarray,
) -> None:
    for row in range(len(s_at) - 1):
        begin, length = s_at[row], s_at[row + 1] - s_at[row]
        places = np.empty(length, dtype=np.int64)
        for j in range(t_at[row], t_at[row + 1]):
            total = 0.0
            for i in range(length):
                f = source[begin + i]
                places[i] = place_of(words, starts[f], starts[f + 1], target[j])
                total += t[places[i]]
            likelihood[0] += np.log(total / length)
            for i in range(length):
                counts[places[i]] += t[places[i]] / total


@compiled()
def _look_up(f: np.ndarray, e: np.ndarray, starts: np.ndarray, words: np.ndarray, t: np.ndarray, found: np.ndarray) -> None:
    for n in range(len(f)):
        place = place_of(words, starts[f[n]], starts[f[n] + 1], e[n])
        if place >= 0:
            found[n] = t[place]
