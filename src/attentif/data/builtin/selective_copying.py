"""Selective copying: symbols at places drawn anew in each row, to be said in order (Jing et al. 2019; Gu & Dao 2023).

    . s1 . . s3 . s0 . . . s2 . say say say say       ->        s1 s3 s0 s2 at the places that ask            (. is blank)

What matters must be told from what does not: a memory that treats all tokens alike keeps the blanks too.
"""

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from attentif.data.builtin.memory_rows import BLANK, IGNORED, SAY, Rows, Seed, memory_set, symbols
from attentif.data.builtin.registry import Options

NOISE, MARK = 0, 1


class SelectiveOptions(Options):
    length: int = Field(48, gt=0, description="tokens before the answer")
    copied: int = Field(8, gt=0, description="symbols to copy")
    symbols: int = Field(14, gt=1, description="number of distinct symbols")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.copied > self.length:
            raise ValueError(f"copied: {self.copied} symbols do not fit in {self.length} places (length)")
        return self


def make_selective_copying(rows: int, *, length: int = 24, copied: int = 4, symbols: int = 6, seed: Seed = 0) -> Rows:
    """(rows, length + copied) tokens from 0 ... symbols + 1, and targets: the `copied` symbols in order, at the marks that end the row."""
    if copied > length:
        raise ValueError(f"{copied} symbols do not fit in {length} places")
    random = np.random.default_rng(seed)
    tokens = np.full((rows, length + copied), NOISE)
    tokens[:, length:] = MARK
    symbol = random.integers(2, 2 + symbols, (rows, copied))
    places = np.sort(random.permuted(np.tile(np.arange(length), (rows, 1)), axis=1)[:, :copied], axis=1)
    np.put_along_axis(tokens, places, symbol, axis=1)
    targets = np.full_like(tokens, IGNORED)
    targets[:, length:] = symbol
    return tokens, targets


SET = memory_set(
    "selective-copying",
    "copy the symbols that stand among blanks, in order: selective copying",
    make_selective_copying,
    SelectiveOptions,
    tokens=56,
    name_tokens=lambda options: [BLANK, SAY, *symbols(options.symbols)],
)
