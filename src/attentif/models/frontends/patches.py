"""Pictures to vectors: square patches as tokens (Dosovitskiy et al. 2021).

x_i = W · pixels of patch i + b,   patches row by row from the top left,   x = [class token; x_1 … x_n] + positions

A distillation token (Touvron et al. 2021) may follow the class token, and registers (Darcet et al. 2024) both, without positions.

Patches tile the picture, or overlap where `stride` is smaller than their side: the picture is then padded by (size - stride) / 2, so that
there are as many as tiles of `stride` pixels. A `stem` of 3 × 3 convolutions, each with a norm and a ReLU, may read the pixels
before they are cut (Xiao et al. 2021): what follows is the same ViT, on better pixels. Positions `sinusoidal-2d` number patches by row and
column and leave the class token without; all others number the class token first, as ViT does. Those of `learned-2d` are interpolated
where a picture has other patches than those it learned from.
"""

from itertools import pairwise
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Ints
from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS
from attentif.models.frontends.pictures import PictureConfig, add_position, build_position, full_seq
from attentif.nn.norm import Norm
from attentif.nn.position import LearnedPlaneConfig, PlaneConfig
from attentif.nn.seq import Seq


@FRONTENDS.register
class PatchesConfig(PictureConfig):
    """Pictures (B, channels, height, width), cut into square patches."""

    kind: Literal["patches"] = Field("patches", description="pictures, cut into squares of pixels")
    size: int = Field(16, gt=0, description="side of a patch in pixels")
    stride: int | None = Field(None, gt=0, description="pixels from a patch to the next; by default its side. It divides height and width")
    stem: Ints = Field((), description="channels of 3 × 3 convolutions before the patches (none: ViT)")
    class_token: bool = Field(False, description="a learned token before the patches, to be pooled (ViT)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    distillation_token: bool = Field(False, description="a second learned token after the class token, which learned from a teacher (DeiT)")
    registers: int = Field(0, ge=0, description="learned tokens without positions before the patches, as scratch memory (DINOv2)")
    bias: bool = Field(True, description="a bias in the map of the patches (CLIP: none)")
    norm: Norm | None = Field(None, description="normalise the sum")

    def build(self, width: int, dropout: float) -> "Patches":
        return Patches(self, width, dropout)

    @property
    def step(self) -> int:
        """Pixels from one patch to the next."""
        return self.stride or self.size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        assert self.height is not None
        assert self.width is not None
        return self.height // self.step, self.width // self.step

    @property
    def names_before(self) -> list[str]:
        registers = [f"[REG{number}]" for number in range(1, self.registers + 1)]
        return ["[CLS]"] * self.class_token + ["[DIST]"] * self.distillation_token + registers

    @property
    def numbered_before(self) -> int:
        return self.class_token + self.distillation_token

    def with_any_size(self) -> Self:
        return self.replace(channels=self.channels or 1, height=self.height or self.step, width=self.width or self.step)

    def check(self) -> None:
        """Refuse sizes that do not fit."""
        _, height, width = self.known_size()
        if self.step > self.size or (self.size - self.step) % 2:
            raise ConfigError(f"stride: patches of {self.size} pixels overlap by an even number of pixels, not every {self.step}")
        for key, pixels in (("height", height), ("width", width)):
            if pixels % self.step:
                what = f"size: patches of {self.size} pixels" if self.stride is None else f"stride: steps of {self.stride} pixels"
                raise ConfigError(f"{what} do not divide the pictures' {key} of {pixels}")
        if self.limit is not None and self.limit < self.tokens_per_picture:
            shown, tokens = self.limit - self.registers, self.tokens_per_picture - self.registers
            raise ConfigError(f"position: it ends at {shown}, and a picture has {tokens} patches")

    @property
    def limit(self) -> int | None:
        limit = super().limit
        return None if limit is None or isinstance(self.position, LearnedPlaneConfig) else limit + self.registers


class Patches(nn.Module):
    def __init__(self, config: PatchesConfig, width: int, dropout: float) -> None:
        super().__init__()
        config.check()
        assert config.channels is not None
        self.size, self.step, self.shape = config.size, config.step, (config.channels, config.height, config.width)
        channels = (config.channels, *config.stem)
        layers = [Stem(before, after) for before, after in pairwise(channels)]
        self.stem = nn.Sequential(*layers) if layers else None
        self.patch = nn.Linear(channels[-1] * config.size**2, width, bias=config.bias)
        self.class_token = nn.Parameter(torch.zeros(width)) if config.class_token else None
        self.distillation_token = nn.Parameter(torch.zeros(width)) if config.distillation_token else None
        self.registers = nn.Parameter(torch.zeros(config.registers, width)) if config.registers else None
        self.position, self.plane = build_position(config, width), isinstance(config.position, PlaneConfig)
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def init_weights(self) -> None:
        """Initialise the learned tokens as ViT does."""
        for token in (self.class_token, self.distillation_token, self.registers):
            if token is not None:
                nn.init.normal_(token, std=0.02)

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        if source.data.shape[1:] != self.shape:
            raise ValueError(f"pictures of shape {tuple(source.data.shape[1:])} given to a model of {self.shape}")
        x = self.patch(patches(source.data if self.stem is None else self.stem(source.data), self.size, self.step))
        if self.plane:
            x = add_position(self.position, x)
        learned = [token.expand(x.shape[0], 1, -1) for token in (self.class_token, self.distillation_token) if token is not None]
        x = torch.cat([*learned, x], dim=1) if learned else x
        if not self.plane:
            x = add_position(self.position, x)
        if self.registers is not None:
            before, after = x.split([len(learned), x.shape[1] - len(learned)], 1)
            x = torch.cat([before, self.registers.expand(x.shape[0], -1, -1), after], dim=1)
        return dropout(self.norm(x), self.dropout, self.training), full_seq(x)


class Stem(nn.Module):
    """relu(n(w * x)): a 3 × 3 convolution and a norm over all channels and pixels of a picture."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, after)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)))

    def init_weights(self) -> None:
        """Initialise for a ReLU (He et al. 2015)."""
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")


def patches(pictures: Tensor, size: int, step: int | None = None) -> Tensor:
    """(B, C, H, W) to (B, H/step · W/step, C · size²), channel by channel, row by row."""
    if step is not None and step != size:
        return nn.functional.unfold(pictures, size, padding=(size - step) // 2, stride=step).mT
    batch, channels, height, width = pictures.shape
    cut = pictures.reshape(batch, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)
