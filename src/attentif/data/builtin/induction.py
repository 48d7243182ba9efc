"""Induction heads: what came after the marker the first time comes after it again (Olsson et al. 2022; Dao et al. 2023; Gu & Dao 2023).

s4 s1 mark s7 s2 s4 ... s9 mark        ->        s7 at the second mark
"""

import numpy as np
from pydantic import Field

from attentif.data.builtin.memory_rows import IGNORED, Rows, Seed, memory_set, symbols
from attentif.data.builtin.registry import Options


class InductionOptions(Options):
    length: int = Field(64, gt=3, description="tokens of a row")
    symbols: int = Field(16, gt=1, description="number of distinct symbols, without the marker")


def induction(rows: int, *, length: int = 64, symbols: int = 16, seed: Seed = 0) -> Rows:
    """(rows, length): 0 is the mark, the symbols follow; only the last place asks."""
    random = np.random.default_rng(seed)
    tokens = random.integers(1, 1 + symbols, (rows, length))
    mark = random.integers(0, length - 2, (rows, 1))
    np.put_along_axis(tokens, mark, 0, axis=1)
    tokens[:, -1] = 0
    targets = np.full_like(tokens, IGNORED)
    targets[:, -1] = np.take_along_axis(tokens, mark + 1, axis=1)[:, 0]
    return tokens, targets


SET = memory_set(
    "induction",
    "predict what followed the marker the first time: induction heads",
    induction,
    InductionOptions,
    tokens=64,
    name_tokens=lambda options: ["mark", *symbols(options.symbols)],
)
