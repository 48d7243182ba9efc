"""Heads that score every position by itself: token classification, and what they share with others."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig, require_classes
from attentif.models.heads.classify import ACTIVATIONS, Activation
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq


class PositionHeadConfig(HeadConfig):
    """Scores at every position."""

    hidden: bool = Field(False, description="a linear map and a non-linearity before the scores (ELECTRA)")
    hidden_bias: bool = Field(True, description="a bias in the map of `hidden`")
    hidden_norm: Norm | None = Field(None, description="normalise what `hidden` gives (ModernBERT)")
    activation: Activation = Field("gelu", description="the non-linearity of `hidden`: tanh, gelu, gelu-tanh, relu, silu")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on each vector; by default the model's")


class PositionHead(nn.Module):
    def __init__(self, config: PositionHeadConfig, width: int, scores: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout if config.dropout is None else config.dropout
        self.hidden = nn.Linear(width, width, bias=config.hidden_bias) if config.hidden else None
        self.norm = config.hidden_norm.build(width) if config.hidden and config.hidden_norm else nn.Identity()
        self.activation = ACTIVATIONS[config.activation]
        self.out = nn.Linear(width, scores)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, T, scores) or (N, scores)."""
        x = dropout(x, self.dropout, self.training)
        return self.out(x if self.hidden is None else self.norm(self.activation(self.hidden(x))))


@HEADS.register
class TokensHeadConfig(PositionHeadConfig):
    """Logits of the classes at every position: token classification."""

    kind: Literal["tokens"] = Field("tokens", description="a score for each class, at every position (tagging)")
    from_data = ("classes",)
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "TokensHead":
        return TokensHead(self, width, require_classes(self.classes), dropout)


class TokensHead(PositionHead):
    """A score for each class."""
