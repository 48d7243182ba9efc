"""Sorting: numbers in any order, to be said from the smallest to the largest.

    n7 n2 n9 n2 say say say say            ->        n2 n2 n7 n9 at the places that ask

Everything must have been read before the first answer, and every answer depends on all of it.
"""

import numpy as np
from pydantic import Field

from attentif.data.builtin.memory_rows import IGNORED, SAY, Rows, Seed, splits_of, symbols
from attentif.data.builtin.registry import BuiltIn, Options, Splits


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


def load(seed: int, options: SortingOptions = SortingOptions()) -> Splits:
    def make(rows: int, own: Seed) -> Rows:
        return make_sorting(rows, length=options.length, numbers=options.numbers, seed=own)

    return splits_of(make, [*symbols(options.numbers, "n"), SAY], options, seed)


SET = BuiltIn(
    name="sorting",
    roles=("text", "answers"),
    description="sort numbers: everything must be read before the first answer",
    size="10,000 train, 500 valid, 1,000 test rows of 24 tokens",
    synthetic=True,
    load=load,
    options=SortingOptions,
)
