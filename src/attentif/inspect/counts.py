"""Counts of an n-gram model after a context, order by order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attentif.text.ngram import UNKNOWN, NGram


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """Continuations of one context; below the highest order, counts are of distinct left contexts."""

    context: tuple[int, ...]  # the order − 1 tokens before; () of single tokens
    total: int
    tokens: tuple[int, ...]  # the most frequent continuations
    counts: tuple[int, ...]


def ngram_counts(model: NGram, before: Sequence[int], *, top: int = 10) -> list[OrderCounts]:
    """Return counts after these tokens, from single tokens to the longest context seen."""
    padded = [*[model.end] * (model.config.order - 1), *before]
    found = []
    for size, level in enumerate(model.levels):
        context = tuple(padded[len(padded) - size :]) if size else ()
        number = model._number(np.array(context, dtype=np.int64)) if size else 0
        if number == UNKNOWN or not level.totals[number]:
            break
        own = slice(level.starts[number], level.starts[number + 1])
        counts, tokens = level.counts[own], level.keys[own] % model.vocab
        order = np.argsort(-counts, kind="stable")[:top]
        found.append(OrderCounts(context, int(counts.sum()), tuple(tokens[order].tolist()), tuple(counts[order].tolist())))
    return found
