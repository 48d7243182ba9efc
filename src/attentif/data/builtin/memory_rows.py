"""Rows of the memory tasks: texts that ask for a token at some positions.

    text       s3 blank blank s1 say say
    answers    _  _     _     _  s3  s1

A word of `answers` for each word of `text`: what is to be answered *at* that place, or NOTHING. So a model that reads from left to right is
scored in one reading, whatever it is made of, and nothing but its answers counts.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin.registry import Options, Splits

NOTHING = "_"  # no answer is expected here
IGNORED = -100  # the same among numbers, as torch's losses have it
BLANK, SAY = "blank", "say"  # what is there to be passed over; a place that asks

Ints = NDArray[np.int64]
Rows = tuple[Ints, Ints]  # tokens and targets, (rows, T) each
Seed = int | Sequence[int]


def symbols(count: int, letter: str = "s") -> list[str]:
    """Names of tokens: s0, s1, ..."""
    return [f"{letter}{number}" for number in range(count)]


def splits_of(make: Callable[[int, Seed], Rows], names: Sequence[str], options: Options, seed: int) -> Splits:
    """Three splits, each from a seed of its own, as texts and answers; `names` are those of the tokens 0, 1, ..."""
    found: Splits = {}
    for place, split in enumerate(("train", "valid", "test")):
        tokens, targets = make(getattr(options, split), [seed, place])
        words = np.array([*names, NOTHING])
        asked = np.where(targets == IGNORED, len(names), targets)
        found[split] = {"text": [" ".join(row) for row in words[tokens]], "answers": [" ".join(row) for row in words[asked]]}
    return found
