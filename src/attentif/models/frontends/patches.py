"""Pictures to vectors: squares of pixels, each a token (Dosovitskiy et al. 2021).

x_i = W · pixels of patch i + b,   patches row by row from the top left,   x = [class token; x_1 … x_n] + positions

Patches tile the picture, or overlap where `stride` is smaller than their side: the picture is then padded by (size - stride) / 2, so that
there are as many as tiles of `stride` pixels. A `stem` of 3 × 3 convolutions, each with a norm and a ReLU, may read the pixels
before they are cut (Xiao et al. 2021): what follows is the same ViT, on better pixels. Positions `sinusoidal-2d` number patches by row and
column and leave the class token without; all others number the class token first, as ViT does.
"""

from itertools import pairwise
from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.models.frontends.tokens import places
from attentif.nn.norm import Norm
from attentif.nn.position import PlaneConfig, Position
from attentif.nn.seq import Seq


@FRONTENDS.register
class PatchesConfig(FrontendConfig):
    """Pictures (B, channels, height, width), cut into squares."""

    kind: Literal["patches"] = Field("patches", description="pictures, cut into squares of pixels")
    from_data = ("channels", "height", "width")
    size: int = Field(16, gt=0, description="side of a patch in pixels")
    stride: int | None = Field(None, gt=0, description="pixels from a patch to the next; by default its side. It divides height and width")
    channels: int | None = Field(None, gt=0, description="1 for grey, 3 for colour; by default the data's")
    height: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    width: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    stem: Annotated[tuple[int, ...], Field(strict=False)] = Field(
        (), description="channels of 3 × 3 convolutions that read the pixels before they are cut (none: ViT's own)"
    )
    class_token: bool = Field(False, description="a learned token before the patches, to be pooled (ViT)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components; by default the model's")
    position: Position | None = Field(None, description="positions added to the patches: sinusoidal-2d, learned, axial, ...")
    norm: Norm | None = Field(None, description="normalise the sum")

    def build(self, width: int, dropout: float) -> "Patches":
        return Patches(self, width, dropout)

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    @property
    def step(self) -> int:
        """Pixels from a patch to the next."""
        return self.stride or self.size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        assert self.height is not None
        assert self.width is not None
        return self.height // self.step, self.width // self.step

    @property
    def tokens_per_picture(self) -> int:
        """Patches, and the class token."""
        rows, columns = self.grid
        return rows * columns + self.class_token

    def with_any_size(self) -> Self:
        return self.changed(channels=self.channels or 1, height=self.height or self.step, width=self.width or self.step)

    def check(self) -> None:
        """Refuse what cannot be cut."""
        if self.channels is None or self.height is None or self.width is None:
            raise ConfigError("channels, height and width of the pictures are not known yet; give them, or train on pictures")
        if self.step > self.size or (self.size - self.step) % 2:
            raise ConfigError(f"stride: patches of {self.size} pixels overlap by an even number of pixels, not every {self.step}")
        for key, pixels in (("height", self.height), ("width", self.width)):
            if pixels % self.step:
                what = f"size: patches of {self.size} pixels" if self.stride is None else f"stride: steps of {self.stride} pixels"
                raise ConfigError(f"{what} do not divide the pictures' {key} of {pixels}")
        if self.limit is not None and self.limit < self.tokens_per_picture:
            raise ConfigError(f"position: it ends at {self.limit}, and a picture has {self.tokens_per_picture} patches")


class Patches(nn.Module):
    def __init__(self, config: PatchesConfig, width: int, dropout: float) -> None:
        super().__init__()
        config.check()
        assert config.channels is not None
        self.size, self.step, self.shape = config.size, config.step, (config.channels, config.height, config.width)
        channels = (config.channels, *config.stem)
        layers = [Stem(before, after) for before, after in pairwise(channels)]
        self.stem = nn.Sequential(*layers) if layers else None
        self.patch = nn.Linear(channels[-1] * config.size**2, width)
        self.class_token = nn.Parameter(torch.zeros(width)) if config.class_token else None
        position = config.position
        self.plane = isinstance(position, PlaneConfig)
        if isinstance(position, PlaneConfig):
            position = position.changed(columns=config.grid[1])
        self.position = position.build(width) if position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def init_weights(self) -> None:
        """The class token begins as a vector of ViT's own: near nothing, and not nothing."""
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        if source.data.shape[1:] != self.shape:
            raise ValueError(f"pictures of shape {tuple(source.data.shape[1:])} given to a model of {self.shape}")
        x = self.patch(patches(source.data if self.stem is None else self.stem(source.data), self.size, self.step))
        if self.plane:
            x = self._placed(x)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        if not self.plane:
            x = self._placed(x)
        seq = Seq.padded(torch.full((len(x),), x.shape[1], device=x.device))
        return dropout(self.norm(x), self.dropout, self.training), seq

    def _placed(self, x: Tensor) -> Tensor:
        if self.position is None:
            return x
        return x + self.position(places(Seq.padded(torch.full((len(x),), x.shape[1], device=x.device))), x.dtype)


class Stem(nn.Module):
    """relu(n(w * x)): a 3 × 3 convolution, and one norm over all channels and pixels, which no other picture can change."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, after)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)))

    def init_weights(self) -> None:
        """As He et al. 2015 begin what a ReLU follows."""
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")


def patches(pictures: Tensor, size: int, step: int | None = None) -> Tensor:
    """(B, C, H, W) to (B, H/step · W/step, C · size²): a patch's pixels channel by channel, row by row."""
    if step is not None and step != size:
        return nn.functional.unfold(pictures, size, padding=(size - step) // 2, stride=step).mT
    batch, channels, height, width = pictures.shape
    cut = pictures.reshape(batch, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)
