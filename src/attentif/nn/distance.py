"""Relative positions in the attention scores, by projected sinusoids.

    score(i, j) = s [ (q_i + u) · k_j + (q_i + v) · r_{i−j} ]        r_d = W_r S(d)                  (Dai et al. 2019, section 3.3)

    S(d)    sinusoids of the signed distance, of the width of the model: `nn/position.py`, with d for the position
    u, v    learned, one of each for every head: global content and position biases

Used by Transformer-XL and Conformer; defined for any distance.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.nn.linear import Linear
from attentif.nn.position import SinusoidalPositions


class DistanceConfig(Config):
    """Relative positions in the scores (Transformer-XL)."""

    base: float = Field(10000.0, gt=1, description="longest wavelength of the sinusoids, in units of 2π positions")

    def build(self, width: int, heads: int, head_width: int) -> "Distances":
        return Distances(self, width, heads, head_width)


class Distances(nn.Module):
    def __init__(self, config: DistanceConfig, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width
        self.project = Linear(width, heads * head_width, bias=False)
        self.key_bias = nn.Parameter(torch.zeros(heads, head_width))  # u
        self.distance_bias = nn.Parameter(torch.zeros(heads, head_width))  # v
        self.waves = SinusoidalPositions(width, config.base)

    def forward(self, q: Tensor, q_pos: Tensor, k_pos: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Return the biased queries (B, H, T, K) and the position term of the scores (B, H, T, S)."""
        k_pos = k_pos if k_pos.ndim == 2 else k_pos[None]
        distance = q_pos[:, :, None] - k_pos[:, None, :]
        lowest, highest = (int(distance.min()), int(distance.max())) if distance.numel() else (0, 0)
        waves = self.waves.compute(torch.arange(lowest, highest + 1, device=q.device)).to(q.dtype)
        r = self.project(waves).unflatten(-1, (self.heads, self.head_width))  # (distances, H, K)
        scores = torch.einsum("bhtk,dhk->bhtd", q + self.distance_bias[:, None], r)
        index = (distance - lowest)[:, None].expand(len(q), self.heads, -1, -1)
        return q + self.key_bias[:, None], scale * scores.gather(-1, index)
