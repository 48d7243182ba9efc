"""Associative recall with several questions (MQAR): pairs of a key and a value, then the keys again; each asks for its value.

    k3 v1 k7 v4 k0 v1 . . k7 . k3 . . k0         ->        v4, v1, v1 at the keys asked            (. is blank)

What to read depends on the key: a memory whose read-out is fixed cannot choose, and one of fixed size can hold so many pairs (Ba et al.
2016; Fu et al. 2023; Arora et al. 2023). With `length`, the keys stand among blanks, most of them soon after the pairs: gaps follow a power
law, as in the last of these papers.
"""

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from attentif.data.builtin.memory_rows import BLANK, IGNORED, Rows, Seed, memory_set, symbols
from attentif.data.builtin.registry import Options

POWER = 0.01  # P(gap) ∝ gap ** (POWER - 1): Arora et al. 2023, appendix


class RecallOptions(Options):
    pairs: int = Field(4, gt=0, description="key-value pairs in a row")
    keys: int = Field(16, gt=0, description="distinct keys")
    values: int = Field(16, gt=1, description="distinct values")
    length: int = Field(0, ge=0, description="tokens of a row, filled with blanks; 0: no blanks, 3 · pairs")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs: {self.pairs} pairs need as many keys, and there are {self.keys} (keys)")
        if self.length and self.length < 3 * self.pairs:
            raise ValueError(f"length: {self.pairs} pairs and their questions need {3 * self.pairs} places, not {self.length}")
        return self


def associative_recall(rows: int, *, pairs: int = 6, keys: int = 12, values: int = 8, length: int = 0, seed: Seed = 0) -> Rows:
    """(rows, 3 · pairs) tokens: pairs of a key (0 ... keys − 1, none twice) and a value (the next `values` numbers), then the keys again in
    another order; targets: the value of each key asked. With a `length`, blanks (keys + values) stand among the keys asked."""
    if pairs > keys:
        raise ValueError(f"{pairs} pairs need as many keys, and there are {keys}")
    random = np.random.default_rng(seed)
    key = random.permuted(np.tile(np.arange(keys), (rows, 1)), axis=1)[:, :pairs]
    value = random.integers(keys, keys + values, (rows, pairs))
    order = random.permuted(np.tile(np.arange(pairs), (rows, 1)), axis=1)
    shown = np.stack([key, value], 2).reshape(rows, 2 * pairs)
    asked, answers = np.take_along_axis(key, order, 1), np.take_along_axis(value, order, 1)
    room = (length or 3 * pairs) - 2 * pairs
    tokens = np.concatenate([shown, np.full((rows, room), keys + values)], 1)
    targets = np.full_like(tokens, IGNORED)
    places = 2 * pairs + _places(random, rows, pairs, room)
    np.put_along_axis(tokens, places, asked, axis=1)
    np.put_along_axis(targets, places, answers, axis=1)
    return tokens, targets


def _places(random: np.random.Generator, rows: int, pairs: int, room: int) -> np.ndarray:
    """Which of the `room` places ask: (rows, pairs), near ones likelier, by a draw without replacement (Gumbel's trick)."""
    if room == pairs:
        return np.tile(np.arange(pairs), (rows, 1))
    weight = (POWER - 1) * np.log(np.arange(1, room + 1))
    return np.sort(np.argsort(-(weight + random.gumbel(size=(rows, room))), axis=1, kind="stable")[:, :pairs], axis=1)


SET = memory_set(
    "recall",
    "pairs of a key and a value, then the keys: associative recall with several questions (MQAR)",
    associative_recall,
    RecallOptions,
    tokens=12,
    name_tokens=lambda options: [*symbols(options.keys, "k"), *symbols(options.values, "v"), BLANK],
)
