"""Films to vectors: tubes of pixels, a square over a few frames each, every one a token (Arnab et al. 2021, "ViViT").

x_i = W · pixels of tube i + b,   tubes frame by frame, then row by row from the top left,   x = [x_1 … x_n] + positions

A film is read as a picture with `frames` × `channels` channels, frame by frame. Positions number tubes as the places of a tall picture,
one group of frames below the other: `sinusoidal-2d` then has a row for each time and row, and a column.
"""

from typing import Literal, Self

from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS
from attentif.models.frontends.pictures import PictureConfig, add_position, build_position, full_seq
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq


@FRONTENDS.register
class TubesConfig(PictureConfig):
    """Films (B, frames · channels, height, width), cut into tubes."""

    kind: Literal["tubes"] = Field("tubes", description="films, cut into tubes of pixels")
    from_data = ("channels", "height", "width", "frames")
    size: int = Field(8, gt=0, description="side of a tube in pixels")
    depth: int = Field(2, gt=0, description="frames of a tube")
    frames: int | None = Field(None, gt=0, description="frames of a film; by default the data's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    norm: Norm | None = Field(None, description="normalise the sum")

    def build(self, width: int, dropout: float) -> "Tubes":
        return Tubes(self, width, dropout)

    @property
    def grid(self) -> tuple[int, int]:
        """Groups of frames × rows, and columns."""
        assert self.height is not None
        assert self.width is not None
        assert self.frames is not None
        return self.frames // self.depth * (self.height // self.size), self.width // self.size

    def with_any_size(self) -> Self:
        sides = {"height": self.height or self.size, "width": self.width or self.size}
        return self.replace(channels=self.channels or 1, frames=self.frames or self.depth, **sides)

    def check(self) -> None:
        """Refuse sizes that cannot be cut into patches."""
        _, height, width = self.known_size()
        if self.frames is None:
            raise ConfigError("frames: not known yet; give them, or train on films")
        for key, extent, part in (("height", height, self.size), ("width", width, self.size), ("frames", self.frames, self.depth)):
            if extent % part:
                raise ConfigError(f"{key}: tubes of {self.depth} frames and {self.size} pixels do not divide {extent}")
        if self.limit is not None and self.limit < self.tokens_per_picture:
            raise ConfigError(f"position: it ends at {self.limit}, and a film has {self.tokens_per_picture} tubes")


class Tubes(nn.Module):
    def __init__(self, config: TubesConfig, width: int, dropout: float) -> None:
        super().__init__()
        config.check()
        assert config.channels is not None
        assert config.frames is not None
        self.size, self.depth, self.channels = config.size, config.depth, config.channels
        self.shape = (config.frames * config.channels, config.height, config.width)
        self.tube = nn.Linear(config.channels * config.depth * config.size**2, width)
        self.position = build_position(config, width)
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        if source.data.shape[1:] != self.shape:
            raise ValueError(f"films of shape {tuple(source.data.shape[1:])} given to a model of {self.shape}")
        x = add_position(self.position, self.tube(cut_tubes(source.data, self.channels, self.depth, self.size)))
        return dropout(self.norm(x), self.dropout, self.training), full_seq(x)


def cut_tubes(films: Tensor, channels: int, depth: int, size: int) -> Tensor:
    """(B, F · C, H, W) to (B, F/depth · H/size · W/size, C · depth · size²): a tube's pixels channel by channel, frame by frame."""
    batch, layers, height, width = films.shape
    cut = films.reshape(batch, layers // channels // depth, depth, channels, height // size, size, width // size, size)
    return cut.permute(0, 1, 4, 6, 3, 2, 5, 7).reshape(batch, -1, channels * depth * size * size)
