"""Extractive question answering: start and end scores (Seo et al. 2017; Devlin et al. 2019)."""

from typing import Literal

from pydantic import Field
from torch import nn

from attentif.models.heads.base import HEADS
from attentif.models.heads.tokens import PositionHead, PositionHeadConfig


@HEADS.register
class SpanHeadConfig(PositionHeadConfig):
    """Start and end scores at every position: extractive question answering."""

    kind: Literal["span"] = Field("span", description="two scores at every position: an answer begins there, it ends there")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "SpanHead":
        return SpanHead(self, width, 2, dropout)


class SpanHead(PositionHead):
    """Where an answer begins, and where it ends."""
