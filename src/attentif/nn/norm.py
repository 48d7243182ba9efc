"""Normalisation of each token's vector.

layer   y = (x - mean) / √(var + ε) · g + b         (Ba et al. 2016)
rms     y = x / √(mean(x²) + ε) · g                 (Zhang & Sennrich 2019)
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from attentif.config import Config, OneOf, Registry

Placement = Literal["pre", "post", "branch", "sandwich", "none"]  # of a norm in a residual sublayer: see block.py


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

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, self.eps)
