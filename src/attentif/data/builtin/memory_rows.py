"""Rows of the memory tasks: texts that ask for a token at some positions.

    text       s3 blank blank s1 say say
    answers    _  _     _     _  s3  s1

A word of `answers` for each word of `text`: what is to be answered *at* that place, or NOTHING. So a model that reads from left to right is
scored in one reading, whatever it is made of, and nothing but its answers counts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin.registry import BuiltIn, Options, Splits

NOTHING = "_"  # no answer is expected here
IGNORED = -100  # the same among numbers, as torch's losses have it
BLANK, SAY = "blank", "say"  # tokens to ignore, and positions that ask

Ints = NDArray[np.int64]
Rows = tuple[Ints, Ints]  # tokens and targets, (rows, T) each
Seed = int | Sequence[int]


def symbols(count: int, letter: str = "s") -> list[str]:
    """Names of tokens: s0, s1, ..."""
    return [f"{letter}{number}" for number in range(count)]


def memory_set(
    name: str, description: str, make: Callable[..., Rows], options: type[Options], tokens: int, name_tokens: Callable[[Any], list[str]]
) -> BuiltIn:
    """A built-in set of such rows: `make(rows, seed=..., **options)` draws them, `name_tokens(options)` names the tokens 0, 1, ..."""

    def load(seed: int, given: Options = options()) -> Splits:
        own, names = given.model_dump(exclude=set(Options.model_fields)), name_tokens(given)
        words, found = np.array([*names, NOTHING]), {}
        for place, split in enumerate(("train", "valid", "test")):
            shown, targets = make(getattr(given, split), seed=[seed, place], **own)
            asked = np.where(targets == IGNORED, len(names), targets)
            found[split] = {"text": [" ".join(row) for row in words[shown]], "answers": [" ".join(row) for row in words[asked]]}
        return found

    size = f"10,000 train, 500 valid, 1,000 test rows of {tokens} tokens"
    return BuiltIn(name=name, roles=("text", "answers"), description=description, size=size, synthetic=True, load=load, options=options)
