"""Extractive question answering: start and end scores (Seo et al. 2017; Devlin et al. 2019)."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.nn.seq import Seq


@HEADS.register
class SpanHeadConfig(HeadConfig):
    """Start and end scores at every position: extractive question answering."""

    kind: Literal["span"] = Field("span", description="two scores at every position: an answer begins there, it ends there")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on each vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "SpanHead":
        return SpanHead(self, width, dropout)


class SpanHead(nn.Module):
    def __init__(self, config: SpanHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout if config.dropout is None else config.dropout
        self.out = nn.Linear(width, 2)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, T, 2) or (N, 2)."""
        return self.out(dropout(x, self.dropout, self.training))
