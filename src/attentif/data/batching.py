"""Batches to a token budget.

A padded batch costs rows × longest, so rows of similar length go together; a packed one costs the sum of its lengths. Where a row has
two sides, a source and a target, `lengths` has a column for each, and each side is padded to its own longest. The plan of an epoch is
a function of (seed, epoch) and the lengths, nothing else: a run that is resumed finds its place again.

Within large chunks of a shuffled order, rows are sorted by length with a little noise (or each epoch would see nearly the same batches),
cut into batches as large as the budget allows, and the batches are shuffled.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.integer]  # (rows,), or (rows, sides)
CHUNK = 256  # batches' worth of rows sorted together: the larger, the less padding, and the less chance in who meets whom
NOISE = 0.02  # of its length, by which a row may come out of order


def plan(lengths: Lengths, budget: int, *, seed: int, epoch: int, shuffle: bool = True, packed: bool = False) -> list[Rows]:
    """Rows of each batch, every row once. A row longer than the budget is a batch by itself.

    Without `shuffle`, longest first: a batch that does not fit into memory shows at once.
    """
    if budget < 1:
        raise ValueError(f"budget {budget} has room for no token")
    sizes = np.maximum(_sides(lengths), 1)
    if not shuffle:
        return _cut_batches(np.lexsort(-sizes.T[::-1]), sizes, budget, packed)
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(sizes))
    *first, last = (sizes * (1 + random.uniform(-NOISE, NOISE, (len(sizes), 1)))).T
    # which chunk a row is in: as many chunks as hold CHUNK budgets of tokens each, of equal numbers of rows
    chunks = max(1, round(int(sizes.sum()) / (budget * CHUNK)))
    chunk = np.empty(len(sizes), dtype=np.int64)
    chunk[order] = np.arange(len(sizes)) * chunks // max(1, len(sizes))
    batches = _cut_batches(np.lexsort((last, *map(np.rint, first), chunk)), sizes, budget, packed)  # the last key counts most
    return [batches[place] for place in random.permutation(len(batches))]


def _cut_batches(order: Rows, sizes: Rows, budget: int, packed: bool) -> list[Rows]:
    """Consecutive runs of the order, each as long as the budget allows."""
    sorted_sizes = sizes[order]
    ends = np.cumsum(sorted_sizes.sum(1))
    batches = []
    start = 0
    while start < len(order):
        if packed:
            before = int(ends[start - 1]) if start else 0
            count = int(np.searchsorted(ends, before + budget, side="right")) - start
        else:
            most = budget // int(sorted_sizes[start].sum()) + 1  # more rows than this cannot fit beside the first
            longest = np.maximum.accumulate(sorted_sizes[start : start + most]).sum(1)
            count = int(np.count_nonzero(longest * np.arange(1, len(longest) + 1) <= budget))
        stop = start + max(1, count)
        batches.append(order[start:stop])
        start = stop
    return batches


def places(lengths: Lengths, rows: Rows) -> int:
    """How large a padded batch of these rows is: tokens and padding."""
    return len(rows) * int(_sides(lengths)[rows].max(0, initial=0).sum())


def padding_waste(lengths: Lengths, batches: Sequence[Rows]) -> float:
    """The share of places that hold padding when these batches are padded."""
    total = sum(places(lengths, rows) for rows in batches)
    tokens = sum(int(np.asarray(lengths)[rows].sum()) for rows in batches)
    return 1.0 - tokens / total if total else 0.0


def _sides(lengths: Lengths) -> Rows:
    """(rows, sides)"""
    sizes = np.asarray(lengths, dtype=np.int64)
    return sizes if sizes.ndim == 2 else sizes[:, None]
