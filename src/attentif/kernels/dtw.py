"""Dynamic time warping: a distance between sequences of different speed (Sakoe & Chiba 1978).

D(i, j) = |a_i - b_j| + min(D(i - 1, j), D(i, j - 1), D(i - 1, j - 1))            distance = D(n, m) / (n + m)

a, b     frames                     (n, D), (m, D)
"""

import numpy as np
from numpy.typing import NDArray

from attentif.kernels.jit import Array, jit, parallel_for

Frames = NDArray[np.float32]


def dtw_naive(a: Frames, b: Frames) -> float:
    """The equation, cell by cell."""
    total = np.full((len(a) + 1, len(b) + 1), np.inf)
    total[0, 0] = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            step = float(np.linalg.norm(a[i - 1].astype(np.float64) - b[j - 1].astype(np.float64)))
            total[i, j] = step + min(total[i - 1, j], total[i, j - 1], total[i - 1, j - 1])
    return float(total[-1, -1]) / (len(a) + len(b))


def nearest_by_dtw(known: list[Frames], asked: list[Frames]) -> NDArray[np.int64]:
    """Return the index of the nearest known sequence for each asked one."""
    found = np.empty(len(asked), dtype=np.int64)
    flat = [np.ascontiguousarray(np.concatenate(rows), dtype=np.float32) for rows in (known, asked)]
    ends = [np.cumsum([0, *(len(row) for row in rows)]) for rows in (known, asked)]
    parallel_for(_nearest, len(asked), flat[0], ends[0], flat[1], ends[1], found)
    return found


@jit(fastmath={"contract", "reassoc"})
def _nearest(start: int, stop: int, known: Array, known_ends: Array, asked: Array, asked_ends: Array, found: Array) -> None:
    longest = 0
    for row in range(len(known_ends) - 1):
        longest = max(longest, known_ends[row + 1] - known_ends[row])
    total = np.empty(longest + 1, np.float32)
    width = known.shape[1]
    for row in range(start, stop):
        a = asked[asked_ends[row] : asked_ends[row + 1]]
        least = np.float32(np.inf)
        for other in range(len(known_ends) - 1):
            b = known[known_ends[other] : known_ends[other + 1]]
            places = np.float32(len(a) + len(b))
            total[: len(b) + 1] = np.inf
            total[0] = 0
            for i in range(len(a)):
                corner, lowest = total[0], np.float32(np.inf)
                total[0] = np.inf
                for j in range(len(b)):
                    distance = np.float32(0)
                    for d in range(width):
                        difference = a[i, d] - b[j, d]
                        distance += difference * difference
                    best = min(total[j + 1], total[j], corner)
                    corner = total[j + 1]
                    total[j + 1] = np.sqrt(distance) + best
                    lowest = min(lowest, total[j + 1])
                if lowest >= least * places:  # totals only grow: it cannot become the nearest
                    break
            if total[len(b)] < least * places and lowest < least * places:
                least = total[len(b)] / places
                found[row] = other
