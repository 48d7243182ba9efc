"""Counts of an n-gram model after a context, and Kneser-Ney smoothing order by order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attentif.errors import UsageError
from attentif.text.ngram import UNKNOWN, Level, NGram


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """Continuations of one context; below the highest order, counts are of distinct left contexts."""

    context: tuple[int, ...]  # the order − 1 tokens before; () of single tokens
    total: int
    tokens: tuple[int, ...]  # the most frequent continuations
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrderStep:
    """P_k(w | h) = max(c_k(hw) − D, 0) / total + γ(h) P_{k−1}(w | h') of one token w at one order k."""

    context: tuple[int, ...]  # h
    count: int  # c_k(hw)
    total: int  # Σ_v c_k(hv)
    discount: float  # D(c_k(hw))
    gamma: float  # γ(h), the weight of the order below
    lower: float  # P_{k−1}(w | h')
    probability: float  # P_k(w | h)


def ngram_counts(model: NGram, before: Sequence[int], *, top: int = 10) -> list[OrderCounts]:
    """Return counts after these tokens, from single tokens to the longest context seen."""
    found = []
    for context, number, level in _known_contexts(model, before):
        counts, tokens = _continuations(model, level, number)
        order = np.argsort(-counts, kind="stable")[:top]
        found.append(OrderCounts(context, int(counts.sum()), tuple(tokens[order].tolist()), tuple(counts[order].tolist())))
    return found


def ngram_steps(model: NGram, before: Sequence[int], token: int) -> list[OrderStep]:
    """Return how the probability of a token after these comes about, from single tokens to the longest context seen."""
    if not 0 <= token < model.vocab:
        raise UsageError(f"the vocabulary has tokens 0 to {model.vocab - 1}, not {token}")
    probability, found = 1 / model.vocab, []
    for context, number, level in _known_contexts(model, before):
        counts, tokens = _continuations(model, level, number)
        count, total = int(counts[tokens == token].sum()), int(counts.sum())
        freed, lower = float(level.discounts[np.minimum(counts, 3)].sum()), probability
        discount = float(level.discounts[min(count, 3)])
        probability = (max(count - discount, 0.0) + freed * lower) / total
        found.append(OrderStep(context, count, total, discount, freed / total, lower, probability))
    return found


def _known_contexts(model: NGram, before: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int, Level]]:
    """Yield each context that was seen with its number and its level, the shortest first."""
    padded = [*[model.end] * (model.config.order - 1), *before]
    for size, level in enumerate(model.levels):
        context = tuple(padded[len(padded) - size :]) if size else ()
        number = model._number(np.array(context, dtype=np.int64)) if size else 0
        if number == UNKNOWN or not level.totals[number]:
            break
        yield context, number, level


def _continuations(model: NGram, level: Level, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and tokens of what follows one context."""
    own = slice(level.starts[number], level.starts[number + 1])
    return level.counts[own], level.keys[own] % model.vocab
