"""IBM model 1: word translation probabilities by expectation-maximisation (Brown et al. 1993).

    P(e | f) = Π_j 1/(l+1) Σ_{i=0}^{l} t(e_j | f_i)                       f_0: the empty word, which explains what has no source
    expectation     P(a_j = i | e, f) = t(e_j | f_i) / Σ_k t(e_j | f_k),   counts c(e | f) = Σ over all links of f to e
    maximisation    t(e | f) = c(e | f) / Σ_e' c(e' | f)

    f        source words of a sentence, the empty word first
    e        target words

t is stored for co-occurring pairs, row by row of f with the words e sorted, and looked up by bisection. The likelihood never decreases.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentif.kernels.jit import Array, inline, jit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class RaggedIds(NamedTuple):
    """Concatenated sentences and their offsets."""

    ids: Ints
    starts: Ints

    @classmethod
    def from_sentences(cls, sentences: Sequence[NDArray[np.integer]]) -> "RaggedIds":
        starts = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
        return cls(np.concatenate(sentences).astype(np.int64) if sentences else np.empty(0, dtype=np.int64), starts)


class TranslationTable(NamedTuple):
    """t(e | f): for each f, the words e that co-occur with it and their probabilities."""

    starts: Ints  # (F + 1,): where the row of each f begins
    words: NDArray[np.int32]
    t: Floats


def em_naive(pairs: list[tuple[list[int], list[int]]], t: dict[tuple[int, int], float]) -> tuple[dict[tuple[int, int], float], float]:
    """One EM pass over (source with the empty word, target) pairs: the new t(f, e), the old log P."""
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


def uniform(source: RaggedIds, target: RaggedIds, source_words: int, target_words: int, at_once: int = 2000) -> TranslationTable:
    """Return a table in which all co-occurring pairs are equally likely."""
    keys = np.empty(0, dtype=np.int64)
    for first in range(0, len(source.starts) - 1, at_once):
        last = min(first + at_once, len(source.starts) - 1)
        lengths = [np.diff(side.starts[first : last + 1]) for side in (source, target)]
        links = np.empty(int((lengths[0] * lengths[1]).sum()), dtype=np.int64)
        _links(first, last, *source, *target, target_words, links)
        keys = np.union1d(keys, links)
    row, words = np.divmod(keys, target_words)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=source_words))])
    return TranslationTable(starts, words.astype(np.int32), np.full(len(keys), 1.0 / target_words))


def em_pass(source: RaggedIds, target: RaggedIds, table: TranslationTable) -> tuple[TranslationTable, float]:
    """Return the table after one EM pass, and log P of the targets before it."""
    counts, likelihood = np.zeros_like(table.t), np.zeros(1)
    _expect(*source, *target, *table, counts, likelihood)
    rows = np.repeat(np.arange(len(table.starts) - 1), np.diff(table.starts))
    sums = np.bincount(rows, counts, minlength=len(table.starts) - 1)
    return table._replace(t=counts / np.maximum(sums[rows], np.finfo(np.float64).tiny)), float(likelihood[0])


def look_up(table: TranslationTable, f: Ints, e: Ints) -> Floats:
    """Return t(e | f) of pairs, 0 where they never co-occurred."""
    found = np.zeros(len(f))
    _look_up(f, e, *table, found)
    return found


@inline
def place_of(words: Array, low: int, high: int, word: int) -> int:
    """Return the index of a word in the sorted words[low:high], or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else -1


@jit()
def _links(first: int, last: int, source: Array, s_at: Array, target: Array, t_at: Array, width: int, links: Array) -> None:
    n = 0
    for row in range(first, last):
        for i in range(s_at[row], s_at[row + 1]):
            for j in range(t_at[row], t_at[row + 1]):
                links[n] = source[i] * width + target[j]
                n += 1


@jit()
def _expect(
    source: Array, s_at: Array, target: Array, t_at: Array, starts: Array, words: Array, t: Array, counts: Array, likelihood: Array
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


@jit()
def _look_up(f: Array, e: Array, starts: Array, words: Array, t: Array, found: Array) -> None:
    for n in range(len(f)):
        place = place_of(words, starts[f[n]], starts[f[n] + 1], e[n])
        if place >= 0:
            found[n] = t[place]
