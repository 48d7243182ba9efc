"""Audio samples to vectors, by convolutions without padding: wav2vec 2.0 (Baevski et al. 2020).

    x_l = gelu(n_l(conv_l(x_{l−1})))        x_0 the samples, one channel             T → ⌊(T − kernel) / stride⌋ + 1, layer by layer
    y = W n(x_L) + b

    n_l    group   the first layer alone, each channel over all the time of its sound: no other sound of the batch counts
           layer   every layer, over the channels of each moment

No output reads past the end of its sound, so padding has no influence.
"""

from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.config import Config
from attentif.errors import AttentifError, ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.nn.norm import LayerNormConfig, Norm
from attentif.nn.seq import Seq, unpack

Sizes = Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(strict=False, min_length=1)]


class WavePlacesConfig(Config):
    """Positions that vectors of sound learn from their neighbours: y + gelu(w * y), w = g v / |v|, a weight for each tap."""

    kernel: int = Field(128, gt=0, description="vectors that each reads")
    groups: int = Field(16, gt=0, description="groups of components, each with a convolution of its own")
    norm: Norm | None = Field(None, description="normalise the sum (wav2vec 2.0's base; its large one does not)")


@FRONTENDS.register
class WavesConfig(FrontendConfig):
    """Audio samples (B, T): convolutions, a norm, a projection."""

    kind: Literal["waves"] = Field("waves", description="raw audio samples")
    channels: Sizes = Field((512,) * 7, description="of each convolution")
    kernels: Sizes = Field((10, 3, 3, 3, 3, 2, 2), description="samples, or vectors of the layer before, that each reads")
    strides: Sizes = Field((5, 2, 2, 2, 2, 2, 2), description="from one of its outputs to the next")
    conv_bias: bool = Field(False, description="biases in the convolutions")
    conv_norm: Literal["group", "layer"] = Field("group", description="group (first layer, over time) or layer (all, over channels)")
    norm: Norm = Field(LayerNormConfig(), description="before the linear map")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    places: WavePlacesConfig | None = Field(None, description="positions by a convolution over the vectors (wav2vec 2.0)")

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            given = f"{len(self.channels)} channels, {len(self.kernels)} kernels and {len(self.strides)} strides"
            raise ValueError(f"{given}: give the same number of each")
        return self

    def build(self, width: int, dropout: float) -> "Waves":
        return Waves(self, width, dropout)

    def output_lengths(self, samples: Tensor) -> Tensor:
        """Number of vectors for sounds of `samples` samples."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = torch.div(samples - kernel, stride, rounding_mode="floor") + 1
        return samples.clamp(min=0)

    @property
    def shortest(self) -> int:
        """Receptive field of one vector, in samples."""
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
        self.places = WavePlaces(config.places, width, dropout) if config.places else None

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x, seq = source.data, source.seq
        if seq.is_packed:  # convolutions want rows
            x, seq = unpack(x, seq), Seq.from_padded(seq.lengths)
        lengths = seq.lengths
        if int(lengths.min()) < self.config.shortest:
            raise AttentifError(f"a sound of {int(lengths.min())} samples is too short: one vector is made of {self.config.shortest}")
        x = x[:, None]
        for number, conv in enumerate(self.convs):
            assert isinstance(conv, nn.Conv1d)
            x = conv(x)
            lengths = (lengths - conv.kernel_size[0]) // conv.stride[0] + 1
            if number < len(self.norms):
                x = self.normalise_layer(x, lengths, self.norms[number])
            x = F.gelu(x)
        seq = Seq.from_padded(lengths, x.shape[2])
        y = dropout(self.project(self.norm(x.mT)), self.dropout, self.training)
        return y if self.places is None else self.places(y, seq), seq

    def normalise_layer(self, x: Tensor, lengths: Tensor, norm: nn.Module) -> Tensor:
        """Normalise (B, C, T) over channels, or over each sound's time."""
        assert isinstance(norm, nn.LayerNorm)
        if self.config.conv_norm == "layer":
            normalised: Tensor = norm(x.mT).mT
            return normalised
        inside = (torch.arange(x.shape[2], device=x.device) < lengths[:, None])[:, None]
        count = lengths[:, None, None]
        off = (x - x.masked_fill(~inside, 0).sum(2, keepdim=True) / count).masked_fill(~inside, 0)
        scaled = off * torch.rsqrt(off.square().sum(2, keepdim=True) / count + norm.eps)
        return scaled * norm.weight[:, None] + norm.bias[:, None]


class WavePlaces(nn.Module):
    def __init__(self, config: WavePlacesConfig, width: int, dropout: float) -> None:
        super().__init__()
        if width % config.groups:
            raise ConfigError(f"places.groups = {config.groups} do not divide the width of {width}")
        self.kernel, self.groups, self.dropout = config.kernel, config.groups, dropout
        self.gain = nn.Parameter(torch.empty(1, 1, config.kernel))
        self.direction = nn.Parameter(torch.empty(width, width // config.groups, config.kernel))
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """As its authors begin: N(0, 4 / (kernel · width)), the gains as long as the directions are."""
        nn.init.normal_(self.direction, std=2 * (self.kernel * len(self.bias)) ** -0.5)
        self.gain.copy_(self.direction.norm(dim=(0, 1), keepdim=True))

    def forward(self, y: Tensor, seq: Seq) -> Tensor:
        """(B, T, D)"""
        if not seq.dense:
            y = y.masked_fill(~seq.valid[..., None], 0.0)
        weight = self.gain * self.direction / self.direction.norm(dim=(0, 1), keepdim=True)
        near = F.conv1d(y.mT, weight, self.bias, padding=self.kernel // 2, groups=self.groups)[..., : y.shape[1]]
        return dropout(self.norm(y + F.gelu(near).mT), self.dropout, self.training)
