"""Conformer's convolution module: what stands near, mixed channel by channel between two gates of all channels.

    y = W₂ φ(n(c(a ⊙ σ(b)))) + b₂,   [a; b] = W₁ x + b₁                              (Gulati et al. 2020, section 2.2)

    c        a depthwise convolution: each channel with its own kernel, centred on the frame; beyond a sequence's ends it reads zeros
    n        batch   over all valid frames of the batch in training, running means in evaluation; padding never counts
             layer   over the channels of each frame
             group   over the channels of each frame, group by group
    φ        a swish in the paper

`batch` is the paper's. It makes a frame depend on the batch it is trained in, so that how a step is cut into batches matters; `layer`
does not, and is the safer choice for small batches.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.nn.aside import Counting, listener
from attentif.nn.ffn import ACTIVATIONS
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site
from attentif.nn.ragged import in_groups
from attentif.nn.seq import Seq

MOMENTUM = 0.1  # of the running means, as torch's own


@MIXERS.register
class ConformerConvConfig(MixerConfig):
    """Gate, depthwise convolution, norm, non-linearity: the local half of a Conformer block."""

    cost: ClassVar[str] = "T"

    kind: Literal["conformer-conv"] = Field("conformer-conv", description="gated depthwise convolution (Conformer)")
    kernel: int = Field(31, ge=3, description="frames that one reads, an odd number: as many on either side")
    norm: Literal["batch", "layer", "group"] = Field("batch", description="after the convolution: batch (the paper), layer, group")
    groups: int = Field(8, gt=0, description="of channels, where the norm is by group")
    activation: Literal["silu", "gelu", "gelu-tanh", "relu"] = Field(
        "silu", description="the non-linearity after the norm: silu (a swish, the paper's), gelu, gelu-tanh, relu"
    )
    bias: bool = Field(True, description="biases in the two linear maps and in the convolution")

    def build(self, site: Site) -> "ConformerConv":
        return ConformerConv(self, site)


class ConformerConv(Mixer):
    caps = Caps(causal=False, bidirectional=True, streaming="none")

    def __init__(self, config: ConformerConvConfig, site: Site) -> None:
        super().__init__()
        if config.kernel % 2 == 0:
            raise ConfigError(f"kernel = {config.kernel}: a frame reads as many on either side, which takes an odd number")
        if config.norm == "group" and site.width % config.groups:
            raise ConfigError(f"groups = {config.groups} do not divide the width of {site.width}")
        D = site.width
        self.config, self.width, self.activation = config, D, ACTIVATIONS[config.activation]
        self.up = Linear(D, 2 * D, bias=config.bias)
        self.taps = nn.Parameter(torch.empty(D, config.kernel))
        self.taps_bias = nn.Parameter(torch.empty(D)) if config.bias else None
        self.norm: nn.Module = {"batch": ValidBatchNorm, "layer": nn.LayerNorm, "group": ChannelGroupNorm}[config.norm](
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
        near = in_groups(self.near, seq, gated) if seq.is_packed else self.near(gated, seq)
        normed = self.norm(near, seq) if isinstance(self.norm, ValidBatchNorm) else self.norm(near)
        return self.out(self.activation(normed))

    def near(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, T, D): the convolution alone."""
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


class ValidBatchNorm(Counting):
    """y = (x - mean) / √(var + ε) · g + b, over the valid frames of a batch (Ioffe & Szegedy 2015); running means in evaluation.

    The running means move once after each step of the optimiser, by all its frames on all processes: accumulation and recomputation
    change nothing. Where nobody listens (`nn/aside.py`), they stay.
    """

    mean: Tensor
    var: Tensor

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.numbers = 2 * width + 1  # sums of the frames and of their squares, and frames
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        if not self.training:
            return (x - self.mean) * torch.rsqrt(self.var + self.eps) * self.weight + self.bias
        frames = x.flatten(0, -2) if seq.dense else x[seq.valid]
        var, mean = torch.var_mean(frames, 0, correction=0)
        if (heard := listener()) is not None:
            with torch.no_grad():  # sums of centred frames: squares of large numbers would lose the variance
                off = frames - self.mean
                heard.say(self, [], torch.cat([off.sum(0), off.square().sum(0), off.new_tensor([len(frames)])]))
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias

    @torch.no_grad()
    def learn(self, counts: Sequence[float]) -> None:
        sums, squares, (frames,) = torch.tensor(counts, dtype=torch.float64).split([len(self.mean), len(self.mean), 1])
        if frames == 0:
            return
        off = sums / frames  # of the running mean
        var = (squares - frames * off.square()).clamp(min=0) / (frames - 1).clamp(min=1)
        self.mean += MOMENTUM * off.to(self.mean)
        self.var.lerp_(var.to(self.var), MOMENTUM)

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        return {}
