"""Copying: some symbols, a long silence, then say them again in order (Hochreiter & Schmidhuber 1997; Arjovsky et al. 2016).

    s3 s0 s5 blank blank ... blank say say say        ->        s3 s0 s5 at the three places that ask

What counts is how long a memory lasts. The places are always the same, so that a fixed state space can do it.
"""

import numpy as np
from pydantic import Field

from attentif.data.builtin.memory_rows import BLANK, IGNORED, SAY, Rows, Seed, memory_set, symbols
from attentif.data.builtin.registry import Options


class CopyingOptions(Options):
    copied: int = Field(8, gt=0, description="symbols to copy")
    symbols: int = Field(8, gt=1, description="number of distinct symbols")
    gap: int = Field(32, ge=0, description="blanks between the symbols and the answer")


def make_copying(rows: int, *, copied: int = 8, symbols: int = 8, gap: int = 32, seed: Seed = 0) -> Rows:
    """(rows, 2 · copied + gap): 0 is blank, 1 asks, the symbols follow."""
    shown = np.random.default_rng(seed).integers(2, 2 + symbols, (rows, copied))
    tokens = np.zeros((rows, 2 * copied + gap), dtype=np.int64)
    tokens[:, :copied], tokens[:, copied + gap :] = shown, 1
    targets = np.full_like(tokens, IGNORED)
    targets[:, copied + gap :] = shown
    return tokens, targets


SET = memory_set(
    "copying",
    "copy symbols after a delay: how long a memory lasts",
    make_copying,
    CopyingOptions,
    tokens=48,
    name_tokens=lambda options: [BLANK, SAY, *symbols(options.symbols)],
)
