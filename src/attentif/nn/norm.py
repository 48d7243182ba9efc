"""Normalisation of each token's vector.

layer   y = (x - mean) / √(var + ε) · g + b         (Ba et al. 2016)
rms     y = x / √(mean(x²) + ε) · g                 (Zhang & Sennrich 2019);  · (c + g) around a constant c;  the mean over a group of x
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry

Placement = Literal["pre", "post", "both", "branch", "sandwich", "none"]  # of a norm in a residual sublayer: see block.py


class NormConfig(Config):
    kind: str
    eps: float = Field(1e-5, gt=0, description="added to the variance, against a division by zero")

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError


NORMS: Registry[NormConfig] = Registry("norm")
Norm = Annotated[NormConfig, OneOf(NORMS)]


@NORMS.register
class LayerNormConfig(NormConfig):
    """Centred and scaled to unit variance."""

    kind: Literal["layer"] = Field("layer", description="centred and scaled to unit variance")
    bias: bool = Field(True, description="a learned shift besides the learned gain")

    def build(self, width: int) -> nn.Module:
        return nn.LayerNorm(width, self.eps, bias=self.bias)


@NORMS.register
class RMSNormConfig(NormConfig):
    """Scaled to unit mean square, not centred."""

    kind: Literal["rms"] = Field("rms", description="scaled to unit mean square, not centred")
    around: float = Field(0.0, description="what the learned gain is added to: 1 in Gemma, whose weight decay then draws gains to 1")

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, self.eps) if self.around == 0 else RMSNormAround(width, self.eps, self.around)


class RMSNormAround(nn.Module):
    """The same with a gain c + g, where g is learned and begins so that the gain is 1."""

    def __init__(self, width: int, eps: float, around: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 1 - around))
        self.eps, self.around = eps, around

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.around + self.weight, self.eps)


class RMSNormByGroup(nn.Module):
    """The same with a mean square for each of several groups of neighbours in the vector."""

    def __init__(self, width: int, eps: float, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps, self.groups = eps, groups

    def forward(self, x: Tensor) -> Tensor:
        by_group = x.unflatten(-1, (self.groups, -1))
        return F.rms_norm(by_group, by_group.shape[-1:], None, self.eps).flatten(-2) * self.weight
