"""One vector for the whole sequence: sentence embeddings (Reimers & Gurevych 2019)."""

from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import Plain, pool_sequence
from attentif.nn.seq import Seq


@HEADS.register
class EmbedHeadConfig(HeadConfig):
    """One vector for the whole sequence: sentence embeddings."""

    kind: Literal["embed"] = Field("embed", description="one vector for the whole sequence (sentence embeddings)")
    pool: Plain = Field("mean", description="how positions become one vector: first, last, mean, max")
    normalise: bool = Field(False, description="of length 1, so that a product is a cosine")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "EmbedHead":
        return EmbedHead(self)


class EmbedHead(nn.Module):
    def __init__(self, config: EmbedHeadConfig) -> None:
        super().__init__()
        self.pool, self.normalise = config.pool, config.normalise

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D)"""
        vectors = pool_sequence(x, seq, self.pool)
        return F.normalize(vectors, dim=-1) if self.normalise else vectors
