"""Samples of sound to vectors, by convolutions without padding: wav2vec 2.0's (Baevski et al. 2020).

    x_l = gelu(n_l(conv_l(x_{l−1})))        x_0 the samples, one channel             T → ⌊(T − kernel) / stride⌋ + 1, layer by layer
    y = W n(x_L) + b

    n_l    group   the first layer alone, each channel over all the time of its sound: no other sound of the batch counts
           layer   every layer, over the channels of each moment

No output reads past the end of its sound, so that padding is never heard.
"""

from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.errors import AttentifError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.nn.norm import LayerNormConfig, Norm
from attentif.nn.seq import Seq, unpack

Sizes = Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(strict=False, min_length=1)]


@FRONTENDS.register
class WavesConfig(FrontendConfig):
    """Samples of sound (B, T): convolutions, a norm, a linear map."""

    kind: Literal["waves"] = Field("waves", description="samples of sound, as they were recorded")
    channels: Sizes = Field((512,) * 7, description="of each convolution")
    kernels: Sizes = Field((10, 3, 3, 3, 3, 2, 2), description="samples, or vectors of the layer before, that each reads")
    strides: Sizes = Field((5, 2, 2, 2, 2, 2, 2), description="from one of its outputs to the next")
    conv_bias: bool = Field(False, description="biases in the convolutions")
    conv_norm: Literal["group", "layer"] = Field(
        "group", description="group (the first, each channel over time) or layer (all, over channels)"
    )
    norm: Norm = Field(LayerNormConfig(), description="before the linear map")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components; by default the model's")

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ValueError(
                f"{len(self.channels)} channels, {len(self.kernels)} kernels and {len(self.strides)} strides: give as many of each"
            )
        return self

    def build(self, width: int, dropout: float) -> "Waves":
        return Waves(self, width, dropout)

    def shortened(self, samples: Tensor) -> Tensor:
        """How many vectors sounds of so many samples become."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = torch.div(samples - kernel, stride, rounding_mode="floor") + 1
        return samples.clamp(min=0)

    @property
    def shortest(self) -> int:
        """Samples that one vector is made of."""
        reach = 1
        for kernel, stride in zip(reversed(self.kernels), reversed(self.strides), strict=True):
            reach = (reach - 1) * stride + kernel
        return reach


class Waves(nn.Module):
    def __init__(self, config: WavesConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.config = config
        inputs = (1, *config.channels[:-1])
        sizes = zip(inputs, config.channels, config.kernels, config.strides, strict=True)
        self.convs = nn.ModuleList(nn.Conv1d(*size, bias=config.conv_bias) for size in sizes)
        normed = config.channels if config.conv_norm == "layer" else config.channels[:1]
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for channels in normed)
        self.norm = config.norm.build(config.channels[-1])
        self.project = nn.Linear(config.channels[-1], width)
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x, seq = source.data, source.seq
        if seq.is_packed:  # convolutions want rows
            x, seq = unpack(x, seq), Seq.padded(seq.lengths)
        lengths = seq.lengths
        if int(lengths.min()) < self.config.shortest:
            raise AttentifError(f"a sound of {int(lengths.min())} samples is too short: one vector is made of {self.config.shortest}")
        x = x[:, None]
        for number, conv in enumerate(self.convs):
            assert isinstance(conv, nn.Conv1d)
            x = conv(x)
            lengths = (lengths - conv.kernel_size[0]) // conv.stride[0] + 1
            if number < len(self.norms):
                x = self.normed(x, lengths, self.norms[number])
            x = F.gelu(x)
        seq = Seq.padded(lengths, x.shape[2])
        return dropout(self.project(self.norm(x.mT)), self.dropout, self.training), seq

    def normed(self, x: Tensor, lengths: Tensor, norm: nn.Module) -> Tensor:
        """(B, C, T)"""
        assert isinstance(norm, nn.LayerNorm)
        if self.config.conv_norm == "layer":
            normalised: Tensor = norm(x.mT).mT
            return normalised
        inside = (torch.arange(x.shape[2], device=x.device) < lengths[:, None])[:, None]
        count = lengths[:, None, None]
        off = (x - x.masked_fill(~inside, 0).sum(2, keepdim=True) / count).masked_fill(~inside, 0)
        scaled = off * torch.rsqrt(off.square().sum(2, keepdim=True) / count + norm.eps)
        return scaled * norm.weight[:, None] + norm.bias[:, None]
