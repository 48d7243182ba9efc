"""Distances in the scores of an attention, by projected sinusoids.

    score(i, j) = s [ (q_i + u) · k_j + (q_i + v) · r_{i−j} ]        r_d = W_r S(d)                  (Dai et al. 2019, section 3.3)

    S(d)    sinusoids of the signed distance, of the width of the model: `nn/position.py`, with d for the place
    u, v    learned, one of each for every head: how much any query cares for a key, and for a distance

Transformer-XL's, and the Conformer's of its paper. Any distance can be read, trained on or not.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.nn.linear import Linear
from attentif.nn.position import Sinusoidal


class DistanceConfig(Config):
    """Distances between queries and keys in the scores."""

    base: float = Field(10000.0, gt=1, description="longest wavelength of the sinusoids, in units of 2π places")

    def build(self, width: int, heads: int, head_width: int) -> "Distances":
        return Distances(self, width, heads, head_width)


class Distances(nn.Module):
    def __init__(self, config: DistanceConfig, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width
        self.project = Linear(width, heads * head_width, bias=False)
        self.key_bias = nn.Parameter(torch.zeros(heads, head_width))  # u
        self.distance_bias = nn.Parameter(torch.zeros(heads, head_width))  # v
        self.waves = Sinusoidal(width, config.base)

    def forward(self, q: Tensor, q_pos: Tensor, k_pos: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, K) as keys meet them, and the bias (B, H, T, S); places (B or 1, T) and (B or 1, S) or (S,)."""
        k_pos = k_pos if k_pos.ndim == 2 else k_pos[None]
        distance = q_pos[:, :, None] - k_pos[:, None, :]
        lowest, highest = (int(distance.min()), int(distance.max())) if distance.numel() else (0, 0)
        waves = self.waves.compute(torch.arange(lowest, highest + 1, device=q.device)).to(q.dtype)
        r = self.project(waves).unflatten(-1, (self.heads, self.head_width))  # (distances, H, K)
        scores = torch.einsum("bhtk,dhk->bhtd", q + self.distance_bias[:, None], r)
        index = (distance - lowest)[:, None].expand(len(q), self.heads, -1, -1)
        return q + self.key_bias[:, None], scale * scores.gather(-1, index)
