"""n-gram models with interpolated Kneser-Ney smoothing (Kneser & Ney 1995; Chen & Goodman 1999).

    P_k(w | h) = max(c_k(hw) − D(c_k(hw)), 0) / Σ_v c_k(hv) + γ(h) P_{k−1}(w | h')        γ(h) = Σ_v D(c_k(hv)) / Σ_v c_k(hv)
    P_0(w) = 1 / V                                                                        P_k(w | h) = P_{k−1}(w | h') where h is unknown

    h        the k − 1 tokens before w;  h' the same without the first of them
    c_n      of the highest order: how often the n-gram occurs
    c_k      of the others: how many different tokens stand before the k-gram (its continuations)
    D        modified:  D(1) = 1 − 2Y n₂/n₁,  D(2) = 2 − 3Y n₃/n₂,  D(≥ 3) = 3 − 4Y n₄/n₃,   Y = n₁ / (n₁ + 2 n₂)
             plain:     D = Y;  n_i: how many k-grams have c_k = i.  Where a text is too small for the former, the latter is taken
    V        tokens of the vocabulary: each has a probability, the unseen ones too, and they sum to one

A text is one stream of tokens, as the neural language models read it: [EOS] ends each document and stands before the first.
An n-gram is numbered by (number of its first n − 1 tokens) · V + its last one, which fits in 64 bits at any order; all is done by sorting.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attentif.text.fitted import FITTED, Fitted, FittedConfig, Row, Watch, load_arrays, no_progress, save_arrays

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = -1  # the number of an n-gram that was not seen
PIECE = 1 << 20  # tokens scored at once


@FITTED.register
class NGramConfig(FittedConfig):
    """n-grams, interpolated Kneser-Ney."""

    family = "language"

    kind: Literal["ngram"] = Field("ngram", description="n-grams, interpolated Kneser-Ney")
    order: int = Field(5, ge=1, description="the longest n-grams: a token is predicted from order - 1 tokens before it")
    smoothing: Literal["modified", "plain"] = Field("modified", description="three discounts per order (Chen & Goodman), or one")

    def build(self) -> "NGram":
        return NGram(self)


@dataclass(frozen=True, slots=True)
class TokenText:
    """A text as concatenated tokens."""

    ids: NDArray[np.integer]
    vocab: int
    end: int  # the token that ends each document


@dataclass(frozen=True)
class Level:
    """The k-grams of one length, sorted by key, so that those of a context are adjacent."""

    keys: Ints  # number of the context · V + last token; of single tokens, the tokens themselves
    counts: NDArray[np.int32]  # c_k
    vocab: int
    contexts: int  # how many k-1-grams there are
    smoothing: str

    @cached_property
    def discounts(self) -> Floats:
        """D(0), D(1), D(2), D(≥ 3)."""
        n1, n2, n3, n4 = (int((self.counts == times).sum()) for times in (1, 2, 3, 4))
        y = n1 / (n1 + 2 * n2) if n1 else 0.5  # a text in which nothing is rare tells nothing about the unseen
        if self.smoothing == "modified" and min(n1, n2, n3, n4):
            d = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
            if (d[1:] > 0).all():
                return d
        return np.array([0.0, y, y, y])

    @cached_property
    def totals(self) -> Floats:
        """Σ_v c_k(hv) of each context."""
        return np.bincount(self._of, self.counts, minlength=self.contexts).astype(np.float64, copy=False)

    @cached_property
    def freed(self) -> Floats:
        """Σ_v D(c_k(hv)) of each context: γ(h) times its total."""
        return np.bincount(self._of, self.discounts[np.minimum(self.counts, 3)], minlength=self.contexts).astype(np.float64, copy=False)

    @cached_property
    def starts(self) -> Ints:
        """Where the k-grams of each context begin, and the end of the last."""
        return np.concatenate([[0], np.cumsum(np.bincount(self._of, minlength=self.contexts))])

    @property
    def _of(self) -> Ints:
        """The context of each k-gram."""
        return self.keys // self.vocab

    def discount(self, counts: NDArray[np.integer]) -> Floats:
        """max(c − D(c), 0)"""
        return np.maximum(counts - self.discounts[np.minimum(counts, 3)], 0.0)

    def find(self, contexts: Ints, tokens: Ints) -> Ints:
        """Return the number of each k-gram, or UNKNOWN; contexts may be UNKNOWN too."""
        asked = contexts * self.vocab + tokens
        place = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        return np.where((contexts >= 0) & (self.keys[place] == asked), place, UNKNOWN)

    def refine(self, p: Floats, contexts: Ints, found: Ints) -> Floats:
        """Compute P_k from P_{k−1}."""
        totals = np.where(contexts >= 0, self.totals[contexts], 0.0)
        kept = np.where(found >= 0, self.discount(self.counts[found]), 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            finer = (kept + self.freed[contexts] * p) / totals
        return np.where(totals > 0, finer, p)


class NGram(Fitted[TokenText]):
    def __init__(self, config: NGramConfig) -> None:
        self.config = config
        self.vocab = self.end = 0
        self.levels: list[Level] = []

    def fit(self, examples: TokenText, watch: Watch = no_progress) -> list[Row]:
        order, self.vocab, self.end = self.config.order, examples.vocab, examples.end
        stream = self._pad_start(examples.ids)
        keys, raw = np.arange(self.vocab), np.bincount(stream, minlength=self.vocab)
        levels, numbers, contexts = [(keys, raw, 1)], stream, 1
        for size in range(2, order + 1):
            watch("count n-grams", size - 1, order)
            contexts = len(keys)
            asked = numbers[:-1] * self.vocab + stream[size - 1 :]  # the context ends one place before the token
            suffixes = numbers[1:]
            keys, raw, numbers, somewhere = _index_keys(asked)
            below, _, contexts_below = levels[-1]  # the lower order counts what stands before, not how often
            levels[-1] = (below, np.bincount(suffixes[somewhere], minlength=len(below)), contexts_below)
            levels.append((keys, raw, contexts))
        watch("count n-grams", order, order)
        self.levels = [Level(k, c.astype(np.int32), self.vocab, n, self.config.smoothing) for k, c, n in levels]
        return [{"order": size, "ngrams": int((level.counts > 0).sum())} for size, level in enumerate(self.levels, 1)]

    def _pad_start(self, ids: NDArray[np.integer]) -> Ints:
        """Prepend as many document ends as a context has tokens."""
        before = np.full(self.config.order - 1, self.end, dtype=np.int64)
        return np.concatenate([before, ids.astype(np.int64)])

    def probabilities(self, ids: NDArray[np.integer]) -> Floats:
        """Return P of each token of a stream given those before it."""
        before = self.config.order - 1
        stream = self._pad_start(ids)
        pieces = [self._score_piece(stream[start : start + PIECE + before])[before:] for start in range(0, len(ids), PIECE)]
        return np.concatenate(pieces) if pieces else np.empty(0)

    def _score_piece(self, stream: Ints) -> Floats:
        p, numbers = self.single[stream], stream
        for level in self.levels[1:]:
            contexts = np.concatenate([[UNKNOWN], numbers[:-1]])
            numbers = level.find(contexts, stream)
            p = level.refine(p, contexts, numbers)
        return p

    @cached_property
    def single(self) -> Floats:
        """P_1 of every token, (V,)."""
        level = self.levels[0]
        total = max(float(level.counts.sum()), 1.0)
        spread = float(level.discounts[np.minimum(level.counts, 3)].sum()) if level.counts.any() else 1.0
        return level.discount(level.counts) / total + spread / total / self.vocab

    def next(self, before: list[int]) -> Floats:
        """Return P of every token (V,) after these tokens."""
        context = self._pad_start(np.array(before, dtype=np.int64))
        p = self.single
        for size, level in enumerate(self.levels[1:], 1):
            number = self._number(context[len(context) - size :])
            if number == UNKNOWN or not level.totals[number]:
                break
            own = slice(level.starts[number], level.starts[number + 1])
            p = level.freed[number] * p
            p[level.keys[own] % self.vocab] += level.discount(level.counts[own])
            p /= level.totals[number]
        return p

    def _number(self, gram: Ints) -> int:
        number = gram[:1]
        for level, token in zip(self.levels[1:], gram[1:], strict=False):
            number = level.find(number, np.array([token]))
        return int(number[0])

    def score(self, examples: TokenText) -> dict[str, float]:
        return {"loss": -float(np.log(self.probabilities(examples.ids)).mean())}

    def save(self, folder: Path) -> None:
        arrays = {f"{part}.{size}": getattr(level, part) for size, level in enumerate(self.levels, 1) for part in ("keys", "counts")}
        save_arrays(folder, arrays | {"vocab": np.array([self.vocab, self.end])})

    def load(self, folder: Path) -> Self:
        names = [f"{part}.{size}" for size in range(1, self.config.order + 1) for part in ("keys", "counts")]
        arrays = load_arrays(folder, "vocab", *names)
        self.vocab, self.end = arrays["vocab"].tolist()
        found = [(arrays[f"keys.{size}"], arrays[f"counts.{size}"]) for size in range(1, self.config.order + 1)]
        contexts = [1, *(len(keys) for keys, _ in found)]
        self.levels = [Level(*pair, self.vocab, n, self.config.smoothing) for pair, n in zip(found, contexts, strict=False)]
        return self

    def sizes(self) -> dict[str, int]:
        return {f"{size}-grams": len(level.keys) for size, level in enumerate(self.levels, 1)}


def _index_keys(keys: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the sorted distinct keys, their counts, the index of each entry's key, and an entry of each."""
    order = np.argsort(keys)
    ordered = keys[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(keys) else np.empty(0, dtype=bool)
    numbers = np.empty_like(keys)
    numbers[order] = np.cumsum(first) - 1
    begins = np.flatnonzero(first)
    return ordered[begins], np.diff(np.append(begins, len(keys))), numbers, order[begins]
