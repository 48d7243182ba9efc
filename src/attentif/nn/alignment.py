"""Alignment scores between a decoder state and every position of the memory.

The equations are in `kernels/scores.py`; what depends on the memory alone is computed once, by `keys`.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.scores import additive_scores, location_scores, product_scores, unit
from attentif.nn.linear import Linear

Score = Literal["additive", "general", "dot", "location", "cosine", "scaled-dot"]
SHARPNESS = 10.0  # initial β of the cosine score, whose range ± 1 is too small for a softmax


class Alignment(nn.Module):
    """Scores of a memory (B, S, M) for states (B, T, N), by one of six equations."""

    def __init__(self, score: Score, width: int, memory_width: int, *, hidden: int, places: int) -> None:
        super().__init__()
        if score in ("dot", "cosine", "scaled-dot") and width != memory_width:
            raise ConfigError(
                f"score = {score!r} compares a state of {width} components with a memory of {memory_width}; make hidden = {memory_width}, "
                "or take general or additive"
            )
        self.score, self.scale = score, width**-0.5 if score == "scaled-dot" else 1.0
        queries = {"additive": hidden, "location": places}.get(score)
        self.q = Linear(width, queries, bias=score == "location") if queries else None
        keys = {"additive": hidden, "general": width}.get(score)
        self.k = Linear(memory_width, keys, bias=score == "additive") if keys else None
        self.v = nn.Parameter(torch.empty(hidden)) if score == "additive" else None
        self.sharpness = nn.Parameter(torch.empty(())) if score == "cosine" else None

    def init_weights(self) -> None:
        if self.v is not None:
            nn.init.normal_(self.v, std=len(self.v) ** -0.5)
        if self.sharpness is not None:
            nn.init.constant_(self.sharpness, SHARPNESS)

    def keys(self, memory: Tensor) -> Tensor | None:
        """Project the memory once for all steps, (B, S, ·); None: the scores use the memory itself."""
        if self.k is not None:
            keys: Tensor = self.k(memory)
            return keys
        return unit(memory) if self.score == "cosine" else None

    def forward(self, states: Tensor, keys: Tensor) -> Tensor:
        """(B, T, N) to (B, T, S)."""
        q = states if self.q is None else self.q(states)
        if self.v is not None:
            return additive_scores(q, keys, self.v)
        if self.score == "location":
            return location_scores(q, keys.shape[1])
        if self.sharpness is not None:
            q = self.sharpness * unit(q)
        return product_scores(q if self.scale == 1.0 else self.scale * q, keys)
