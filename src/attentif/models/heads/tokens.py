"""A score for each class, at every place."""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig, known
from attentif.models.heads.classify import ACTIVATIONS, Activation
from attentif.nn.seq import Seq


@HEADS.register
class TokensHeadConfig(HeadConfig):
    """A score for each class, at every place: tagging."""

    kind: Literal["tokens"] = Field("tokens", description="a score for each class, at every place (tagging)")
    from_data = ("classes",)
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    hidden: bool = Field(False, description="a linear map and a non-linearity before the scores (ELECTRA)")
    activation: Activation = Field("gelu", description="the non-linearity of `hidden`: tanh, gelu, gelu-tanh, relu, silu")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of each vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "TokensHead":
        return TokensHead(self, width, dropout)


class TokensHead(nn.Module):
    def __init__(self, config: TokensHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout if config.dropout is None else config.dropout
        self.hidden = nn.Linear(width, width) if config.hidden else None
        self.activation = ACTIVATIONS[config.activation]
        self.out = nn.Linear(width, known(config.classes))

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = dropout(x, self.dropout, self.training)
        return self.out(x if self.hidden is None else self.activation(self.hidden(x)))
