"""One vector of length 1 for the whole sequence, in a space that several kinds of data share (CLIP; Radford et al. 2021).

z = W p / ‖W p‖        p is the pooled vector; the similarity of two inputs is s · zᵀ z', s = exp(`log_scale`) learned, 100 at most
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import Plain, pool_sequence
from attentif.nn.seq import Seq

SCALE, MOST = 1 / 0.07, 100.0  # CLIP's


@HEADS.register
class MatchHeadConfig(HeadConfig):
    """A vector of length 1 in a space that several kinds of data share, and how sharply similarities are told apart."""

    kind: Literal["match"] = Field("match", description="one vector of length 1 in a space shared by pictures, texts and sounds")
    pool: Plain = Field("mean", description="how positions become one vector: first, last, mean, max")
    components: int | None = Field(None, gt=0, description="of the vector; by default the model's width")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "MatchHead":
        return MatchHead(self, width)


class MatchHead(nn.Module):
    def __init__(self, config: MatchHeadConfig, width: int) -> None:
        super().__init__()
        self.pool = config.pool
        self.out = nn.Linear(width, config.components or width, bias=False)
        self.log_scale = nn.Parameter(torch.empty(()))

    @torch.no_grad()
    def init_weights(self) -> None:
        """Begin with CLIP's scale."""
        self.log_scale.fill_(math.log(SCALE))

    @property
    def scale(self) -> Tensor:
        return self.log_scale.exp().clamp(max=MOST)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, components)"""
        return F.normalize(self.out(pool_sequence(x, seq, self.pool)), dim=-1)
