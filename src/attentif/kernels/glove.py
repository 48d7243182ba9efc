"""GloVe: word vectors from logarithms of co-occurrence (Pennington, Socher & Manning 2014).

    X_ij = Σ 1/d over the positions where word j stands d ≤ window words before or after word i
    J = ½ Σ_{X_ij > 0} f(X_ij) (w_iᵀ w̃_j + b_i + b̃_j − log X_ij)²        f(x) = min(1, (x / x_max)^α)

With e = f(X_ij)(w_iᵀw̃_j + b_i + b̃_j − log X_ij), one entry moves

    ∂w_i = e w̃_j    ∂w̃_j = e w_i    ∂b_i = ∂b̃_j = e

by AdaGrad (Duchi et al. 2011), component by component:  θ ← θ − η g / √G,  G ← G + g²,  G begins at 1.

X is counted in a hash table with open addressing (i ≤ j; X is symmetric), piece by piece. Entries are processed in a fixed order, so the
same seed gives the same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentif.kernels.jit import Array, jit

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
EMPTY = -1
FULL = 0.6  # share of a table's slots after which it grows
SCATTER = -7046029254386353131  # 2⁶⁴ / golden ratio as a signed number: Knuth's multiplicative hash


class Entries(NamedTuple):
    """The entries of X, each pair in both directions."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    counts: NDArray[np.float64]


class GloveParameters(NamedTuple):
    """Word and context vectors with their biases, (V, D + 1) each, and AdaGrad's accumulators."""

    words: Floats
    contexts: Floats
    word_squares: Floats
    context_squares: Floats


def cooccurrence_naive(pieces: list[list[int]], window: int) -> dict[tuple[int, int], float]:
    """X by definition; -1 ends a sentence."""
    found: dict[tuple[int, int], float] = {}
    for piece in pieces:
        for here, word in enumerate(piece):
            for there in range(here - 1, max(here - window, 0) - 1, -1):
                if word < 0 or piece[there] < 0:
                    break
                for pair in ((word, piece[there]), (piece[there], word)):
                    found[pair] = found.get(pair, 0.0) + 1 / (here - there)
    return found


class Cooccurrence:
    """X, counted piece by piece; sentences do not span pieces."""

    def __init__(self, vocab: int, window: int, slots: int = 1 << 16) -> None:
        self.vocab, self.window = vocab, window
        self.keys, self.sums = np.full(slots, EMPTY, dtype=np.int64), np.zeros(slots)
        self.used = np.zeros(1, dtype=np.int64)

    def count(self, piece: NDArray[np.int32]) -> None:
        start = np.zeros(1, dtype=np.int64)
        while start[0] < len(piece):
            _count(piece, start, self.window, self.vocab, self.keys, self.sums, self.used)
            if start[0] < len(piece):
                self._grow()

    def _grow(self) -> None:
        keys, sums = self.keys, self.sums
        self.keys, self.sums = np.full(4 * len(keys), EMPTY, dtype=np.int64), np.zeros(4 * len(keys))
        _refill(keys, sums, self.keys, self.sums)

    def entries(self) -> Entries:
        """Return the entries sorted by word numbers, row ≤ column first, then mirrored."""
        held = np.flatnonzero(self.keys != EMPTY)
        held = held[np.argsort(self.keys[held])]
        low, high = (part.astype(np.int32) for part in np.divmod(self.keys[held], self.vocab))
        sums, apart = self.sums[held], low != high
        sums = np.where(apart, sums, 2 * sums)  # a word beside itself is the neighbour of both
        return Entries(np.concatenate([low, high[apart]]), np.concatenate([high, low[apart]]), np.concatenate([sums, sums[apart]]))


def weights(counts: NDArray[np.float64], x_max: float, alpha: float) -> NDArray[np.float64]:
    """f(X)"""
    return np.minimum(1.0, (counts / x_max) ** alpha)


def begin(vocab: int, size: int, seed: int) -> GloveParameters:
    """Draw vectors and biases between ±½ / D, as in Pennington's program."""
    rng = np.random.default_rng(seed)
    words, contexts = (((rng.random((vocab, size + 1)) - 0.5) / size).astype(np.float32) for _ in range(2))
    return GloveParameters(words, contexts, np.ones_like(words), np.ones_like(contexts))


def glove_pass(entries: Entries, f: NDArray[np.float64], order: Ints, parameters: GloveParameters, lr: float) -> float:
    """Make one pass over the entries in this order; return J accumulated on the way."""
    cost = np.zeros(1)
    logs = np.log(entries.counts)
    _step(entries.rows, entries.columns, logs.astype(np.float32), f.astype(np.float32), order, *parameters, np.float32(lr), cost)
    return float(cost[0])


@jit()
def _count(piece: Array, start: Array, window: int, vocab: int, keys: Array, sums: Array, used: Array) -> None:
    """Count from `start` until the piece ends or the table is too full; update `start`."""
    mask = len(keys) - 1
    for here in range(start[0], len(piece)):
        if used[0] + window > FULL * len(keys):
            start[0] = here
            return
        word = piece[here]
        if word < 0:
            continue
        for distance in range(1, min(window, here) + 1):
            other = piece[here - distance]
            if other < 0:
                break
            key = min(word, other) * vocab + max(word, other)
            slot = (key * SCATTER >> 20) & mask
            while keys[slot] != key and keys[slot] != EMPTY:
                slot = (slot + 1) & mask
            if keys[slot] == EMPTY:
                keys[slot] = key
                used[0] += 1
            sums[slot] += 1.0 / distance
    start[0] = len(piece)


@jit()
def _refill(keys: Array, sums: Array, new_keys: Array, new_sums: Array) -> None:
    mask = len(new_keys) - 1
    for old in range(len(keys)):
        key = keys[old]
        if key == EMPTY:
            continue
        slot = (key * SCATTER >> 20) & mask
        while new_keys[slot] != EMPTY:
            slot = (slot + 1) & mask
        new_keys[slot] = key
        new_sums[slot] = sums[old]


@jit(fastmath={"contract", "reassoc", "arcp", "nsz", "afn"})
def _step(
    rows: Array, columns: Array, logs: Array, f: Array, order: Array, words: Array, contexts: Array, word_squares: Array,
    context_squares: Array, lr: float, cost: Array
) -> None:  # fmt: skip
    D = words.shape[1] - 1
    for place in order:
        i, j = rows[place], columns[place]
        w, c, w_squares, c_squares = words[i], contexts[j], word_squares[i], context_squares[j]
        product = w[D] + c[D]
        for d in range(D):
            product += w[d] * c[d]
        difference = product - logs[place]
        e = f[place] * difference
        cost[0] += 0.5 * e * difference
        for d in range(D):
            gw, gc = e * c[d], e * w[d]
            w[d] -= lr * gw / np.sqrt(w_squares[d])
            c[d] -= lr * gc / np.sqrt(c_squares[d])
            w_squares[d] += gw * gw
            c_squares[d] += gc * gc
        w[D] -= lr * e / np.sqrt(w_squares[D])
        c[D] -= lr * e / np.sqrt(c_squares[D])
        w_squares[D] += e * e
        c_squares[D] += e * e
