"""One vector for the whole sequence: sentence embeddings (Reimers & Gurevych 2019); pictures and texts side by side (Radford et al. 2021).

v = W n(pool(x_1 … x_T)) + b        W and the norm n where there are some;  v / |v| if `normalise`
s(v, u) = e^a v·u / |v||u| + c      how near two vectors are to a model of two towers: softmax of s over texts (CLIP),
                                    or its sigmoid, for each pair alone (SigLIP, Zhai et al. 2023)
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import Plain, ProbeConfig, pool_sequence, without_first
from attentif.nn.linear import Linear
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq

Similarity = Literal["softmax", "sigmoid"]
FIRST_SCALE = {"softmax": 2.6592, "sigmoid": 2.3026}  # ln(1 / 0.07), ln 10
FIRST_OFFSET = -10.0


@HEADS.register
class EmbedHeadConfig(HeadConfig):
    """One vector for the whole sequence: sentence embeddings."""

    kind: Literal["embed"] = Field("embed", description="one vector for the whole sequence (sentence embeddings)")
    pool: Plain = Field("mean", description="how positions become one vector: first, last, mean, max")
    skip: int = Field(0, ge=0, description="positions at the beginning that are left out: a class token, registers")
    probe: ProbeConfig | None = Field(None, description="attention by a learned query instead of `pool` (SigLIP)")
    norm: Norm | None = Field(None, description="normalise the components of the pooled vector (BEiT)")
    projection: int | None = Field(None, gt=0, description="components of the vector after a linear map; by default none")
    projection_bias: bool = Field(False, description="a bias in the map of `projection`")
    normalise: bool = Field(False, description="of length 1, so that a product is a cosine")
    similarity: Similarity | None = Field(None, description="scores of pairs, in a model with a tower: softmax (CLIP) or sigmoid (SigLIP)")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "EmbedHead":
        return EmbedHead(self, width)


class EmbedHead(nn.Module):
    def __init__(self, config: EmbedHeadConfig, width: int) -> None:
        super().__init__()
        self.pool, self.skip, self.normalise, self.similarity = config.pool, config.skip, config.normalise, config.similarity
        self.probe = config.probe.build(width) if config.probe else None
        self.pooled_norm = config.norm.build(width) if config.norm else nn.Identity()
        self.projection = Linear(width, config.projection, bias=config.projection_bias) if config.projection else nn.Identity()
        self.log_scale = nn.Parameter(torch.zeros(1)) if config.similarity else None
        self.offset = nn.Parameter(torch.zeros(1)) if config.similarity == "sigmoid" else None

    def init_weights(self) -> None:
        if self.log_scale is not None and self.similarity is not None:
            nn.init.constant_(self.log_scale, FIRST_SCALE[self.similarity])
        if self.offset is not None:
            nn.init.constant_(self.offset, FIRST_OFFSET)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D)"""
        return self.vectors(x, seq, self.pool, normalise=self.normalise)

    def vectors(self, x: Tensor, seq: Seq, pool: Plain, *, normalise: bool) -> Tensor:
        """(B, D), pooled in this way where no probe does it."""
        if self.skip:
            x, seq = without_first(x, seq, self.skip)
        pooled = pool_sequence(x, seq, pool) if self.probe is None else self.probe(x, seq)
        vectors: Tensor = self.projection(self.pooled_norm(pooled))
        return F.normalize(vectors, dim=-1) if normalise else vectors

    def scores(self, vectors: Tensor, others: Tensor) -> Tensor:
        """(N, M): the logits of every pair."""
        if self.log_scale is None:
            raise ValueError("this head compares no pairs: `similarity` is none")
        cosines = F.normalize(vectors, dim=-1) @ F.normalize(others, dim=-1).mT
        return self.log_scale.exp() * cosines + (0.0 if self.offset is None else self.offset)

    def probabilities(self, vectors: Tensor, others: Tensor) -> Tensor:
        """(N, M): of the others for each vector, or of each pair alone."""
        scores = self.scores(vectors, others)
        return scores.softmax(-1) if self.similarity == "softmax" else scores.sigmoid()
