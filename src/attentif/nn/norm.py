"""Normalisation: over the components of a token, or over the tokens of a batch.

layer   y = (x - mean) / √(var + ε) · g + b         (Ba et al. 2016)
batch   the same, mean and var over all valid tokens of the batch, for each component; running means in evaluation
                                                    (Ioffe & Szegedy 2015)
rms     y = x / √(mean(x²) + ε) · g                 (Zhang & Sennrich 2019);  · (c + g) around a constant c;  the mean over a group of x
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError
from attentif.nn.auxiliary import CountingModule, current_auxiliary
from attentif.nn.seq import Seq

Placement = Literal["pre", "post", "both", "branch", "sandwich", "none"]  # of a norm in a residual sublayer: see block.py


class NormConfig(Config):
    kind: str
    eps: float = Field(1e-5, gt=0, description="added to the variance, against a division by zero")

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError

    def build_by_head(self, heads: int, width: int) -> nn.Module:
        """Build a norm of the last dimension of (..., H, K), with a gain of its own for each head."""
        raise ConfigError(f"a {self.kind} norm cannot have a gain for each head (only a layer norm)")


NORMS: Registry[NormConfig] = Registry("norm")
STACK_NORMS: Registry[NormConfig] = Registry("norm")
Norm = Annotated[NormConfig, OneOf(NORMS)]  # of each token by itself
StackNorm = Annotated[NormConfig, OneOf(STACK_NORMS)]  # the same, or one that reads the whole batch


@STACK_NORMS.register
@NORMS.register
class LayerNormConfig(NormConfig):
    """Centred and scaled to unit variance."""

    kind: Literal["layer"] = Field("layer", description="centred and scaled to unit variance")
    bias: bool = Field(True, description="a learned shift besides the learned gain")

    def build(self, width: int) -> nn.Module:
        return nn.LayerNorm(width, self.eps, bias=self.bias)

    def build_by_head(self, heads: int, width: int) -> nn.Module:
        return LayerNormByHead(heads, width, self.eps, bias=self.bias)


@STACK_NORMS.register
@NORMS.register
class RMSNormConfig(NormConfig):
    """Scaled to unit mean square, not centred."""

    kind: Literal["rms"] = Field("rms", description="scaled to unit mean square, not centred")
    around: float = Field(0.0, description="constant added to the learned gain (Gemma: 1)")
    gain: bool = Field(True, description="a learned gain of each component (Llama 4's queries and keys: none)")

    def build(self, width: int) -> nn.Module:
        if not self.gain:
            return nn.RMSNorm(width, self.eps, elementwise_affine=False)
        return nn.RMSNorm(width, self.eps) if self.around == 0 else RMSNormAround(width, self.eps, self.around)


@STACK_NORMS.register
class BatchNormConfig(NormConfig):
    """Each component centred and scaled over the tokens of the batch."""

    kind: Literal["batch"] = Field("batch", description="each component normalised over the valid tokens of the batch")
    momentum: float = Field(0.1, gt=0, le=1, description="update rate of the running means")

    def build(self, width: int) -> nn.Module:
        return BatchNorm(width, self.eps, self.momentum)


def apply_norm(norm: nn.Module, x: Tensor, seq: Seq) -> Tensor:
    """Apply a norm; only batch norm needs the Seq, to skip padding."""
    y: Tensor = norm(x, seq) if isinstance(norm, BatchNorm) else norm(x)
    return y


class BatchNorm(CountingModule):
    """Batch norm over valid tokens; running means in evaluation.

    Running means are updated once per optimiser step from all its tokens on all ranks, independent of gradient accumulation, and only
    inside `collect_auxiliary`. In training every token depends on all others of the batch, later ones too.
    """

    mean: Tensor
    var: Tensor

    def __init__(self, width: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.numbers = 2 * width + 1  # sums of the tokens and of their squares, and tokens
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        if not self.training:
            return (x - self.mean) * torch.rsqrt(self.var + self.eps) * self.weight + self.bias
        tokens = x.flatten(0, -2) if seq.dense else x[seq.valid]
        var, mean = torch.var_mean(tokens, 0, correction=0)
        if (auxiliary := current_auxiliary()) is not None:
            with torch.no_grad():  # centred, because squares of large numbers would lose the variance
                off = tokens - self.mean
                auxiliary.add(self, [], torch.cat([off.sum(0), off.square().sum(0), off.new_tensor([len(tokens)])]))
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias

    @torch.no_grad()
    def learn(self, counts: Sequence[float]) -> None:
        sums, squares, (tokens,) = torch.tensor(counts, dtype=torch.float64).split([len(self.mean), len(self.mean), 1])
        if tokens == 0:
            return
        off = sums / tokens  # of the running mean
        var = (squares - tokens * off.square()).clamp(min=0) / (tokens - 1).clamp(min=1)
        self.mean += self.momentum * off.to(self.mean)
        self.var.lerp_(var.to(self.var), self.momentum)

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        return {}


class RMSNormAround(nn.Module):
    """RMS norm with gain c + g; g is learned and initialised so that the gain is 1."""

    def __init__(self, width: int, eps: float, around: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 1 - around))
        self.eps, self.around = eps, around

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.around + self.weight, self.eps)


class LayerNormByHead(nn.Module):
    """Layer norm of each head, with gains and shifts of its own."""

    def __init__(self, heads: int, width: int, eps: float, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, width))
        self.bias = nn.Parameter(torch.zeros(heads, width)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x, x.shape[-1:], eps=self.eps) * self.weight
        return y if self.bias is None else y + self.bias


class RMSNormByGroup(nn.Module):
    """RMS norm with a mean square per group of components."""

    def __init__(self, width: int, eps: float, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps, self.groups = eps, groups

    def forward(self, x: Tensor) -> Tensor:
        by_group = x.unflatten(-1, (self.groups, -1))
        return F.rms_norm(by_group, by_group.shape[-1:], None, self.eps).flatten(-2) * self.weight
