"""Conformer's convolution module: a gated depthwise convolution between two linear maps.

    y = W₂ φ(n(c(a ⊙ σ(b)))) + b₂,   [a; b] = W₁ x + b₁                              (Gulati et al. 2020, section 2.2)

    c        a depthwise convolution: each channel with its own kernel, centred on the frame; beyond a sequence's ends it reads zeros
    n        batch   over all valid frames of the batch in training, running means in evaluation; padding never counts
             layer   over the channels of each frame
             group   over the channels of each frame, group by group
    φ        a swish in the paper

`batch` is the paper's. It makes a frame depend on the batch it is trained in, so that how a step is cut into batches matters; `layer`
does not, and is the safer choice for small batches.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.nn.ffn import ACTIVATIONS
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site
from attentif.nn.norm import BatchNorm, apply_norm
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq


@MIXERS.register
class ConformerConvConfig(MixerConfig):
    """Gate, depthwise convolution, norm, activation: the local half of a Conformer block."""

    cost: ClassVar[str] = "T"

    kind: Literal["conformer-conv"] = Field("conformer-conv", description="gated depthwise convolution (Conformer)")
    kernel: int = Field(31, ge=3, description="width of the convolution in frames; odd")
    norm: Literal["batch", "layer", "group"] = Field("batch", description="after the convolution: batch (the paper), layer, group")
    groups: int = Field(8, gt=0, description="groups of channels of norm = group")
    activation: Literal["silu", "gelu", "gelu-tanh", "relu"] = Field("silu", description="activation after the norm (paper: silu)")
    bias: bool = Field(True, description="biases in the two linear maps and in the convolution")


class ConformerConv(Mixer, config=ConformerConvConfig):
    caps = Caps(causal=False, bidirectional=True, streaming="none")

    def __init__(self, config: ConformerConvConfig, site: Site) -> None:
        super().__init__()
        if config.kernel % 2 == 0:
            raise ConfigError(f"kernel = {config.kernel}: the kernel size must be odd")
        if config.norm == "group" and site.width % config.groups:
            raise ConfigError(f"groups = {config.groups} does not divide width = {site.width}")
        D = site.width
        self.config, self.width, self.activation = config, D, ACTIVATIONS[config.activation]
        self.up = Linear(D, 2 * D, bias=config.bias)
        self.taps = nn.Parameter(torch.empty(D, config.kernel))
        self.taps_bias = nn.Parameter(torch.empty(D)) if config.bias else None
        self.norm: nn.Module = {"batch": BatchNorm, "layer": nn.LayerNorm, "group": ChannelGroupNorm}[config.norm](
            D, **({"groups": config.groups} if config.norm == "group" else {})
        )
        self.out = Linear(D, D, bias=config.bias)
        self.init_weights()

    def init_weights(self) -> None:
        bound = self.config.kernel**-0.5  # as torch begins a convolution
        for parameter in (self.taps, self.taps_bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, seq: Seq, state: None = None) -> Tensor:
        gated = F.glu(self.up(x), -1)
        near = map_groups(self.convolve, seq, gated) if seq.is_packed else self.convolve(gated, seq)
        return self.out(self.activation(apply_norm(self.norm, near, seq)))

    def convolve(self, x: Tensor, seq: Seq) -> Tensor:
        """Apply the depthwise convolution alone, (B, T, D)."""
        x = x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)
        y = F.conv1d(x.mT, self.taps[:, None], self.taps_bias, padding=self.config.kernel // 2, groups=self.width)
        return y.mT


class ChannelGroupNorm(nn.Module):
    """Each group of channels of each frame, centred and scaled to unit variance."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        grouped = x.unflatten(-1, (self.groups, -1))
        return F.layer_norm(grouped, grouped.shape[-1:]).flatten(-2) * self.weight + self.bias
