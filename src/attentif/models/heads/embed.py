"""One vector for the whole sequence: sentence embeddings (Reimers & Gurevych 2019)."""

from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import Plain, pool_sequence, without_first
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq


@HEADS.register
class EmbedHeadConfig(HeadConfig):
    """One vector for the whole sequence: sentence embeddings."""

    kind: Literal["embed"] = Field("embed", description="one vector for the whole sequence (sentence embeddings)")
    pool: Plain = Field("mean", description="how positions become one vector: first, last, mean, max")
    skip: int = Field(0, ge=0, description="positions at the beginning that are left out: a class token, registers")
    norm: Norm | None = Field(None, description="normalise the components of the pooled vector (BEiT)")
    normalise: bool = Field(False, description="of length 1, so that a product is a cosine")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "EmbedHead":
        return EmbedHead(self, width)


class EmbedHead(nn.Module):
    def __init__(self, config: EmbedHeadConfig, width: int) -> None:
        super().__init__()
        self.pool, self.skip, self.normalise = config.pool, config.skip, config.normalise
        self.pooled_norm = config.norm.build(width) if config.norm else nn.Identity()

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D)"""
        if self.skip:
            x, seq = without_first(x, seq, self.skip)
        vectors = self.pooled_norm(pool_sequence(x, seq, self.pool))
        return F.normalize(vectors, dim=-1) if self.normalise else vectors
