"""What stands between two tokens, by counting: a guess for a hidden token, and a source of plausible wrong ones.

    P(w | l, r) = λ₃ c(l, w, r) / c(l, ·, r) + λ₂ (c(l, w) / c(l, ·) + c(w, r) / c(·, r)) / 2 + λ₁ (c(w) + 1) / (n + V)

where a context that was never seen gives its share to the next coarser one. A draw from the counts is the token of a random occurrence of
the context: occurrences are sorted by context once, and a draw is one look-up.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.ragged import Ints

Floats = NDArray[np.float64]
SHARES = (0.6, 0.3, 0.1)  # λ₃, λ₂, λ₁


@dataclass(frozen=True)
class Occurrences:
    """The tokens seen in each context, context by context: one after the other, each as often as it was seen."""

    contexts: Ints  # sorted
    tokens: Ints  # sorted within each context

    @classmethod
    def of(cls, contexts: Ints, tokens: Ints) -> "Occurrences":
        order = np.lexsort((tokens, contexts))
        return cls(contexts[order], tokens[order])

    def span(self, asked: Ints) -> tuple[Ints, Ints]:
        """Where the occurrences of each context begin and end."""
        return np.searchsorted(self.contexts, asked, side="left"), np.searchsorted(self.contexts, asked, side="right")

    def shares(self, asked: Ints, tokens: Ints, vocab: int) -> tuple[Floats, NDArray[np.bool_]]:
        """The share of `tokens` in each context, and whether the context was ever seen."""
        low, high = self.span(asked)
        both, keys = self.contexts * vocab + self.tokens, asked * vocab + tokens
        seen = np.searchsorted(both, keys, side="right") - np.searchsorted(both, keys, side="left")
        return seen / np.maximum(high - low, 1), high > low

    def commonest(self, asked: Ints) -> Ints:
        """The token seen most often in each context; -1 where it was never seen."""
        names, inverse = np.unique(asked, return_inverse=True)
        best = np.full(len(names), -1, dtype=np.int64)
        for place, (low, high) in enumerate(zip(*self.span(names), strict=True)):
            if high > low:
                found, counts = np.unique(self.tokens[low:high], return_counts=True)
                best[place] = found[counts.argmax()]
        return best[inverse]

    def draw(self, asked: Ints, numbers: Floats) -> Ints:
        """The token of a random occurrence of each context; -1 where there is none."""
        low, high = self.span(asked)
        place = np.minimum(low + (numbers * (high - low)).astype(np.int64), len(self.tokens) - 1)
        return np.where(high > low, self.tokens[place], -1)


class Neighbours:
    """Counts of a text whose first and last tokens are special ones, so that every other one has two neighbours."""

    def __init__(self, text: Ints, vocab: int, special: Ints) -> None:
        self.vocab = vocab
        left, middle, right = text[:-2], text[1:-1], text[2:]
        ordinary = ~np.isin(middle, special)
        left, middle, right = left[ordinary], middle[ordinary], right[ordinary]
        self.counts = np.bincount(middle, minlength=vocab)
        self.tokens = np.sort(middle)
        self.between = Occurrences.of(left * vocab + right, middle)
        self.after, self.before = Occurrences.of(left, middle), Occurrences.of(right, middle)

    def probability(self, left: Ints, tokens: Ints, right: Ints) -> Floats:
        """Of each token between its neighbours."""
        third, second, first = SHARES
        p1 = (self.counts[tokens] + 1.0) / (len(self.tokens) + self.vocab)
        (after, after_seen), (before, before_seen) = (
            self.after.shares(left, tokens, self.vocab),
            self.before.shares(right, tokens, self.vocab),
        )
        p2 = (np.where(after_seen, after, p1) + np.where(before_seen, before, p1)) / 2
        between, seen = self.between.shares(left * self.vocab + right, tokens, self.vocab)
        return third * np.where(seen, between, p2) + second * p2 + first * p1

    def guess(self, left: Ints, right: Ints) -> Ints:
        """The commonest token between two neighbours; after the left one where the two were never seen so; else the commonest of all."""
        found = self.between.commonest(left * self.vocab + right)
        found = np.where(found < 0, self.after.commonest(left), found)
        return np.where(found < 0, int(self.counts.argmax()), found)

    def draw(self, left: Ints, own: Ints, right: Ints, numbers: Floats) -> Ints:
        """Another token for each place between two neighbours: `numbers` (n, 2) are even draws, of the side and of the occurrence.

        What was seen between both neighbours; where that is the token itself, or nothing, what was seen beside one of them; else any.
        """
        side, occurrence = numbers.T
        both = self.between.draw(left * self.vocab + right, occurrence)
        one = np.where(side < 0.5, self.after.draw(left, occurrence), self.before.draw(right, occurrence))
        found = self.tokens[(occurrence * len(self.tokens)).astype(np.int64)]
        for finer in (one, both):
            found = np.where((finer >= 0) & (finer != own), finer, found)
        return found
