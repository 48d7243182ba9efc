"""Performer: softmax attention estimated by positive random features (FAVOR+), in linear time.

    softmax(q·k / √K) ∝ E φ(q)·φ(k),     φ(x)_m = (exp(w_m·x̃ − ‖x̃‖²/2) + ε) / √M,     x̃ = x / K^¼,     w_m ~ N(0, I), orthogonal

    q, k     queries and keys of a head                                    (B, H, T, K) each
    w        directions; more features estimate better and cost more       (M, K)
    ε        keeps every weight positive

Choromanski et al. 2021. Heads share the directions w; each layer draws its own from `seed`, its number and its number of draws: `redraw()`
draws the next, `redraw = 1000` does so every 1000 optimiser steps. Directions and counts are buffers, so a resumed run continues them.
Do not redraw while a state is in use. With `kernel = "relu"`, φ(x)_m = max(w_m·x̃, 0) + ε, which estimates no softmax.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.kernels.linear_attention import Map, feature_map_attention
from attentif.kernels.random_features import key_constant, orthogonal_directions, relu_features, softmax_features
from attentif.nn.auxiliary import CountingModule
from attentif.nn.feature_attention import FeatureAttention, FeatureConfig
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.past import SumState
from attentif.nn.seq import Seq


@MIXERS.register
class PerformerConfig(FeatureConfig):
    """Softmax attention estimated by random features: linear time, fixed-size state."""

    kind: Literal["performer"] = Field("performer", description="softmax attention estimated by random features, in linear time")
    features: int | None = Field(None, gt=0, description="number of random features; by default K ln K of a head of width K")
    kernel: Literal["softmax", "relu"] = Field("softmax", description="softmax, or the paper's relu kernel")
    eps: float = Field(1e-4, ge=0, description="added to every feature")
    seed: int = Field(0, ge=0, description="random seed of the directions")
    redraw: int | None = Field(None, gt=0, description="optimiser steps between redraws; by default never")


class Performer(FeatureAttention, CountingModule, config=PerformerConfig):
    directions: Tensor  # (M, K)
    draws: Tensor  # how often they were drawn
    steps: Tensor  # of the optimiser since then
    numbers = 0  # it only counts optimiser steps

    def __init__(self, config: PerformerConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config, self.layer = config, site.layer
        self.features = config.features or max(int(self.head_width * math.log(self.head_width)), 1)
        self.register_buffer("directions", torch.empty(self.features, self.head_width))
        self.register_buffer("draws", torch.zeros((), dtype=torch.long))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.init_weights()

    def init_weights(self) -> None:
        """Draw the first directions."""
        self.draws = torch.zeros_like(self.draws)
        self.steps = torch.zeros_like(self.steps)
        self._draw(0)

    def redraw(self) -> None:
        """Draw this layer's next directions."""
        self.draws = self.draws + 1
        self._draw(int(self.draws))

    def _draw(self, number: int) -> None:
        key = ((self.config.seed * 1_000_003 + self.layer) * 1_000_003 + number) % 2**63
        drawn = orthogonal_directions(self.features, self.head_width, torch.Generator("cpu").manual_seed(key))
        self.directions = drawn.to(self.directions)  # a new tensor: a tape or the graph may hold the old one

    def learn(self, counts: Sequence[float]) -> None:
        if self.config.redraw is not None:
            self.steps = self.steps + 1
            if int(self.steps) >= self.config.redraw:
                self.steps = torch.zeros_like(self.steps)
                self.redraw()

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        return {}

    def eps(self, dtype: torch.dtype) -> float:
        return torch.finfo(dtype).tiny  # only against 0/0: features may be small without being wrong

    def apply_feature_map(self, q: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        of_queries, of_keys = self.feature_maps(k, valid)
        return of_queries(q, None), of_keys(k, valid)

    def feature_maps(self, k: Tensor, valid: Tensor | None) -> tuple[Map, Map]:
        """Return φ of queries and of keys, for a sequence with keys k (B, H, T, K)."""
        scale, eps, w = self.head_width**-0.25, self.config.eps, self.directions
        if self.config.kernel == "relu":
            relu: Map = lambda x, valid: relu_features(scale * x, w, eps, valid)
            return relu, relu
        c = key_constant(scale * k, w, whole=not self.causal, valid=valid)
        return lambda q, valid: softmax_features(scale * q, w, eps, None, valid), lambda k, valid: softmax_features(
            scale * k, w, eps, c, valid
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        """Attend segment by segment: there are too many features to store them all."""
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        valid, sums = None if seq.dense else seq.valid, None if state is None else state.sums
        maps = self.feature_maps(k, valid)
        y, sums = feature_map_attention(q, k, v, sums, maps=maps, valid=valid, causal=self.causal, eps=self.eps(q.dtype))
        if state is not None:
            state.sums = sums
        return y.transpose(1, 2).flatten(2)
