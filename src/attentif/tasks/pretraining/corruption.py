"""T5's span corruption (Raffel et al. 2020, section 3.1.4): what is hidden, what is read, what is to be written.

Of n tokens, round(density · n) are hidden in round(hidden / mean) spans. Both the hidden and the visible tokens are cut into as many
parts, every cut as likely; the parts alternate and begin with a visible one. A span becomes one sentinel where it is read; what is written
is each sentinel and the tokens it stands for:

    read      Le <extra_id_0> très beau et la fin <extra_id_1> . [EOS]
    written   <extra_id_0> film est <extra_id_1> m' a plu [EOS]

(`random_spans_noise_mask` and `noise_span_to_unique_sentinel` of the authors' code; there too nothing follows the last span.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attentif.errors import UsageError
from attentif.text import Tokenizer

Ints = NDArray[np.int64]


def sentinel(number: int) -> str:
    """The name of a sentinel, as in T5's vocabulary."""
    return f"<extra_id_{number}>"


def count_hidden(length: int, density: float, mean: float) -> tuple[int, int]:
    """How many tokens are hidden, and in how many spans, of a piece of two tokens or more."""
    hidden = min(max(round(length * density), 1), length - 1)
    return hidden, min(max(round(hidden / mean), 1), hidden, length - hidden)


def corrupted_lengths(length: int, density: float, mean: float) -> tuple[int, int]:
    """Tokens read and written, the [EOS] of each included."""
    hidden, spans = count_hidden(length, density, mean)
    return length - hidden + spans + 1, hidden + spans + 1


def sample_spans(length: int, density: float, mean: float, rng: Generator) -> list[tuple[int, int]]:
    """Where each span begins and ends."""
    hidden, spans = count_hidden(length, density, mean)
    parts = np.stack([split_randomly(length - hidden, spans, rng), split_randomly(hidden, spans, rng)], 1).ravel()
    ends = np.cumsum(parts)
    return [(int(ends[place - 1]), int(ends[place])) for place in range(1, len(ends), 2)]


def split_randomly(items: int, parts: int, rng: Generator) -> Ints:
    """The sizes of `parts` parts of `items` things, none empty: the borders are any of the items - 1 places, each set as likely."""
    borders = np.sort(rng.choice(items - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.empty(0, dtype=np.int64)
    return np.diff(np.concatenate([[0], borders, [items]])).astype(np.int64)


@dataclass(frozen=True)
class Marks:
    """The special tokens that corruption writes with."""

    sentinels: Ints
    pad: int
    bos: int
    eos: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Marks":
        """As many sentinels as the tokenizer has."""
        found: list[int] = []
        while (token := tokenizer.rust.token_to_id(sentinel(len(found)))) is not None:
            found.append(token)
        if not found:
            raise UsageError(f"this tokenizer has no sentinels ({sentinel(0)}, ...): it is not one of a run of `denoise`")
        return cls(np.array(found, dtype=np.int64), tokenizer.pad, tokenizer.bos, tokenizer.eos)

    def corrupt(self, tokens: Ints, spans: list[tuple[int, int]]) -> tuple[Ints, Ints]:
        """What is read, x [EOS], and what is written, [BOS] y [EOS]."""
        if len(spans) > len(self.sentinels):
            raise UsageError(f"{len(spans)} gaps, and the tokenizer has {len(self.sentinels)} sentinels")
        read: list[Ints] = []
        written: list[Ints] = [np.array([self.bos])]
        done = 0
        for number, (start, end) in enumerate(spans):
            mark = self.sentinels[number : number + 1]
            read += [tokens[done:start], mark]
            written += [mark, tokens[start:end]]
            done = end
        last = np.array([self.eos])
        return np.concatenate([*read, tokens[done:], last]), np.concatenate([*written, last])

    def parse_fills(self, written: list[int]) -> list[list[int]]:
        """The tokens that were written after each sentinel, in the sentinels' order; nothing where one was not written."""
        place = {int(token): number for number, token in enumerate(self.sentinels)}
        fills: list[list[int]] = [[] for _ in self.sentinels]
        current: list[int] | None = None
        for token in written:
            if token == self.eos:
                break
            if token in place:
                current = fills[place[token]]
                current.clear()
            elif current is not None:
                current.append(token)
        return fills
