"""Sequence classification."""

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig, require_classes
from attentif.models.heads.pooling import AttentionPool, Plain, Pool, pool_sequence
from attentif.nn import ffn
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq

Activation = Literal["tanh", "gelu", "gelu-tanh", "relu", "silu", "none"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "none": lambda x: x, **ffn.ACTIVATIONS}


@HEADS.register
class ClassifyHeadConfig(HeadConfig):
    """Logits of the classes of a whole sequence."""

    kind: Literal["classify"] = Field("classify", description="a score for each class, for the whole sequence")
    from_data = ("classes",)
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    pool: Pool = Field("mean", description="how positions become one vector: first, last, mean, max, attention")
    hidden: bool = Field(False, description="a linear map and a non-linearity before the scores (BERT's pooler)")
    inner: int | None = Field(None, gt=0, description="components of what `hidden` gives; by default as many as it reads")
    hidden_bias: bool = Field(True, description="a bias in the map of `hidden`")
    hidden_norm: Norm | None = Field(None, description="normalise what `hidden` gives (ModernBERT)")
    activation: Activation = Field("tanh", description="the non-linearity of `hidden`: tanh, gelu, gelu-tanh, relu, silu, none")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of the pooled vector; by default the model's")
    bias: bool = Field(True, description="a bias for each class")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "ClassifyHead":
        return ClassifyHead(self, width, dropout)


class ClassifyHead(nn.Module):
    def __init__(self, config: ClassifyHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.pool: Plain | AttentionPool = AttentionPool(width) if config.pool == "attention" else config.pool
        self.dropout = dropout if config.dropout is None else config.dropout
        inner = config.inner or width if config.hidden else width
        self.hidden = nn.Linear(width, inner, bias=config.hidden_bias) if config.hidden else None
        self.norm = config.hidden_norm.build(inner) if config.hidden and config.hidden_norm else nn.Identity()
        self.activation = ACTIVATIONS[config.activation]
        self.out = nn.Linear(inner, require_classes(config.classes), bias=config.bias)

    @torch.no_grad()
    def zero_output(self) -> None:
        """Zero the output layer, so that all classes start with the same score."""
        for parameter in self.out.parameters():
            parameter.zero_()

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = self.pool(x, seq) if isinstance(self.pool, AttentionPool) else pool_sequence(x, seq, self.pool)
        if self.hidden is not None:
            x = self.norm(self.activation(self.hidden(x)))
        return self.out(dropout(x, self.dropout, self.training))
