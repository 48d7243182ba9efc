"""Sorting: numbers in any order, to be said from the smallest to the largest.

    n7 n2 n9 n2 say say say say            ->        n2 n2 n7 n9 at the places that ask

Everything must have been read before the first answer, and every answer depends on all of it.
"""

import numpy as np
from pydantic import Field

from attentif.data.builtin.memory_rows import IGNORED, SAY, Rows, Seed, memory_set, symbols
from attentif.data.builtin.registry import Options


class SortingOptions(Options):
    length: int = Field(12, gt=1, description="numbers to sort")
    numbers: int = Field(32, gt=1, description="number of distinct symbols")


def make_sorting(rows: int, *, length: int = 12, numbers: int = 32, seed: Seed = 0) -> Rows:
    """(rows, 2 · length): the numbers 0 ... numbers − 1, then as many places that ask (the token `numbers`)."""
    shown = np.random.default_rng(seed).integers(0, numbers, (rows, length))
    tokens = np.concatenate([shown, np.full_like(shown, numbers)], 1)
    targets = np.full_like(tokens, IGNORED)
    targets[:, length:] = np.sort(shown, axis=1)
    return tokens, targets


SET = memory_set(
    "sorting",
    "sort numbers: everything must be read before the first answer",
    make_sorting,
    SortingOptions,
    tokens=24,
    name_tokens=lambda options: [*symbols(options.numbers, "n"), SAY],
)
