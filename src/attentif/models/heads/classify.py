"""Sequence classification.

z = W p + b                            p is the pooled vector
z = (W x_1 + b + V x_2 + c) / 2        of a class token and a distillation token (Touvron et al. 2021)
"""

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig, require_classes
from attentif.models.heads.pooling import AttentionPool, Joined, Plain, Pool, pool_joined, pool_sequence, without_first
from attentif.nn import ffn
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq

Activation = Literal["tanh", "gelu", "gelu-tanh", "gelu-quick", "relu", "silu", "none"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "none": lambda x: x, **ffn.ACTIVATIONS}


@HEADS.register
class ClassifyHeadConfig(HeadConfig):
    """Logits of the classes of a whole sequence."""

    kind: Literal["classify"] = Field("classify", description="a score for each class, for the whole sequence")
    from_data = ("classes",)
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    pool: Pool = Field(
        "mean", description="how positions become one vector: first, last, mean, max, attention; side by side: first-mean, first-two"
    )
    skip: int = Field(0, ge=0, description="positions at the beginning that a mean leaves out: a class token, registers")
    norm: Norm | None = Field(None, description="normalise the pooled vector (BEiT)")
    hidden: bool = Field(False, description="a linear map and a non-linearity before the scores (BERT's pooler)")
    inner: int | None = Field(None, gt=0, description="components of what `hidden` gives; by default as many as it reads")
    hidden_bias: bool = Field(True, description="a bias in the map of `hidden`")
    hidden_norm: Norm | None = Field(None, description="normalise what `hidden` gives (ModernBERT)")
    activation: Activation = Field("tanh", description="the non-linearity of `hidden`: tanh, gelu, gelu-tanh, relu, silu, none")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on the pooled vector; by default the model's")
    bias: bool = Field(True, description="a bias for each class")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "ClassifyHead":
        return ClassifyHead(self, width, dropout)


class ClassifyHead(nn.Module):
    def __init__(self, config: ClassifyHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.pool: Plain | Joined | AttentionPool = AttentionPool(width) if config.pool == "attention" else config.pool
        self.skip = config.skip
        if config.skip and config.pool not in ("mean", "first-mean"):
            raise ConfigError(f"head.skip: pool = {config.pool!r} is not a mean; leave it out")
        self.dropout = dropout if config.dropout is None else config.dropout
        width = 2 * width if config.pool in ("first-mean", "first-two") else width
        self.pooled_norm = config.norm.build(width) if config.norm else nn.Identity()
        inner = config.inner or width if config.hidden else width
        self.hidden = nn.Linear(width, inner, bias=config.hidden_bias) if config.hidden else None
        self.norm = config.hidden_norm.build(inner) if config.hidden and config.hidden_norm else nn.Identity()
        self.activation = ACTIVATIONS[config.activation]
        self.second: nn.Linear | None = None
        if config.pool == "first-two":
            if config.hidden or config.norm:
                raise ConfigError("head.pool: first-two has a map of each vector, and neither `hidden` nor `norm`")
            inner = inner // 2
            self.second = nn.Linear(inner, require_classes(config.classes), bias=config.bias)
        self.out = nn.Linear(inner, require_classes(config.classes), bias=config.bias)

    @torch.no_grad()
    def zero_output(self) -> None:
        """Zero the output layer, so that all classes start with the same score."""
        for layer in (self.out, self.second):
            for parameter in () if layer is None else layer.parameters():
                parameter.zero_()

    def pool_states(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D), or (B, 2·D)"""
        if isinstance(self.pool, AttentionPool):
            return self.pool(x, seq)
        if self.pool == "first-mean" or self.pool == "first-two":
            return pool_joined(x, seq, self.pool, self.skip)
        return pool_sequence(*(without_first(x, seq, self.skip) if self.skip else (x, seq)), self.pool)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = self.pooled_norm(self.pool_states(x, seq))
        if self.hidden is not None:
            x = self.norm(self.activation(self.hidden(x)))
        x = dropout(x, self.dropout, self.training)
        if self.second is not None:
            first, second = x.chunk(2, -1)
            return (self.out(first) + self.second(second)) / 2
        return self.out(x)
