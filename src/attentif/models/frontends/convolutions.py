"""Pictures to vectors by a convolutional network: each place of its last map is a token (LeNet, ResNet).

A stage repeats one of

    plain      x ← a(n(w * x))
    residual   x ← a(n(w₂ * a(n(w₁ * x))) + s(x))          s: the identity, or n(w_s * x), 1 × 1, where channels or places change

with a the activation, n the norm (or none); its first convolution takes `stride` pixels a step, and its map may be pooled at the end.
Tokens run row by row from the top left; a linear map follows where the last stage has other than `width` channels. With no block after it
(`encoder.layers = 0`) the model is the network itself (LeCun et al. 1998, He et al. 2016); under a decoder, what Xu et al. 2015 attend to.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS
from attentif.models.frontends.pictures import PictureConfig, add_position, build_position, full_seq
from attentif.nn import ffn
from attentif.nn.norm import StackNorm, apply_norm
from attentif.nn.seq import Seq

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, **ffn.ACTIVATIONS}


class StageConfig(Config):
    """Convolutions of one width."""

    channels: int = Field(gt=0, description="channels that it gives")
    size: int = Field(3, gt=0, description="side of its kernels in pixels")
    padding: int | None = Field(
        None, ge=0, description="pixels added at each side; by default half a kernel, so that the map keeps its size"
    )
    stride: int = Field(1, gt=0, description="pixels from a place to the next, in its first convolution")
    repeat: int = Field(1, gt=0, description="times that the convolution, or the residual pair, is there")
    residual: bool = Field(False, description="pairs of convolutions around which the input is added (ResNet)")
    norm: StackNorm | None = Field(None, description="normalise after each convolution: batch, layer, rms")
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = Field("relu", description="the non-linearity")
    pool: Literal["none", "mean", "max"] = Field(
        "none", description="what four neighbours become at its end: all kept, their mean, or maximum"
    )

    def shrink(self, pixels: int) -> int:
        """Positions along a side of this many pixels; 0 or less if there are none."""
        for number in range(self.repeat):
            stride = self.stride if number == 0 else 1
            for step in (stride, 1) if self.residual else (stride,):
                pixels = (pixels + 2 * self.edge - self.size) // step + 1
        return pixels if self.pool == "none" else pixels // 2

    @property
    def edge(self) -> int:
        return self.size // 2 if self.padding is None else self.padding


@FRONTENDS.register
class ConvolutionsConfig(PictureConfig):
    """Pictures read by a convolutional network."""

    kind: Literal["convolutions"] = Field("convolutions", description="pictures, read by a convolutional network")
    stages: Annotated[tuple[StageConfig, ...], Field(strict=False)] = Field(
        min_length=1, description="its convolutions, from the pixels on"
    )
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")

    def build(self, width: int, dropout: float) -> "Convolutions":
        return Convolutions(self, width, dropout)

    @property
    def grid(self) -> tuple[int, int]:
        assert self.height is not None
        assert self.width is not None
        rows, columns = self.height, self.width
        for stage in self.stages:
            rows, columns = stage.shrink(rows), stage.shrink(columns)
        return rows, columns

    def with_any_size(self) -> Self:
        """Sides large enough for all stages."""
        side = next(side for side in (2**n for n in range(3, 17)) if min(self.replace(height=side, width=side).grid) > 0)
        return self.replace(channels=self.channels or 1, height=self.height or side, width=self.width or side)

    def check(self) -> None:
        self.known_size()
        if min(self.grid) < 1:
            raise ConfigError(f"stages: nothing is left of pictures of {self.height} × {self.width} pixels; take fewer, or smaller kernels")
        for number, stage in enumerate(self.stages):
            if stage.residual and 2 * stage.edge != stage.size - 1:
                raise ConfigError(f"stages.{number}: residual pairs keep the size of the map: an odd size, and padding of half of it")
        if self.limit is not None and self.limit < self.tokens_per_picture:
            raise ConfigError(f"position: it ends at {self.limit}, and a picture has {self.tokens_per_picture} places")


class Convolutions(nn.Module):
    def __init__(self, config: ConvolutionsConfig, width: int, dropout: float) -> None:
        super().__init__()
        config.check()
        assert config.channels is not None
        self.shape = (config.channels, config.height, config.width)
        self.stages = nn.ModuleList()
        channels = config.channels
        for stage in config.stages:
            self.stages.append(Stage(stage, channels))
            channels = stage.channels
        self.project = nn.Identity() if channels == width else nn.Linear(channels, width)
        self.position = build_position(config, width)
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x = source.data
        if x.shape[1:] != self.shape:
            raise ValueError(f"pictures of shape {tuple(x.shape[1:])} given to a model of {self.shape}")
        for stage in self.stages:
            x = stage(x)
        x = add_position(self.position, self.project(x.flatten(2).mT))
        return dropout(x, self.dropout, self.training), full_seq(x)


class Stage(nn.Module):
    def __init__(self, config: StageConfig, before: int) -> None:
        super().__init__()
        layers = []
        for number in range(config.repeat):
            stride = config.stride if number == 0 else 1
            layers.append((Pair if config.residual else Convolution)(config, before, stride))
            before = config.channels
        self.layers = nn.ModuleList(layers)
        self.activation, self.pool = ACTIVATIONS[config.activation], config.pool

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.activation(layer(x))
        if self.pool == "none":
            return x
        return F.avg_pool2d(x, 2) if self.pool == "mean" else F.max_pool2d(x, 2)


class Convolution(nn.Module):
    """n(w * x)."""

    def __init__(self, config: StageConfig, before: int, stride: int, size: int | None = None) -> None:
        super().__init__()
        size, edge = (config.size, config.edge) if size is None else (size, size // 2)
        self.conv = nn.Conv2d(before, config.channels, size, stride, edge, bias=config.norm is None)
        self.norm = config.norm.build(config.channels) if config.norm else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        if self.norm is None:
            return x
        places = x.permute(0, 2, 3, 1)
        rows = places.flatten(1, 2)
        return apply_norm(self.norm, rows, full_seq(rows)).view(places.shape).permute(0, 3, 1, 2)

    def init_weights(self) -> None:
        """Initialise as He et al. 2015 for a following ReLU."""
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)


class Pair(nn.Module):
    """n(w₂ * a(n(w₁ * x))) + s(x), before the last activation."""

    def __init__(self, config: StageConfig, before: int, stride: int) -> None:
        super().__init__()
        self.first = Convolution(config, before, stride)
        self.second = Convolution(config, config.channels, 1)
        self.shortcut = nn.Identity() if stride == 1 and before == config.channels else Convolution(config, before, stride, size=1)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.activation(self.first(x)))
        return y + self.shortcut(x)
