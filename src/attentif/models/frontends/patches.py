"""Pictures to vectors: squares of pixels, each a token (Dosovitskiy et al. 2021).

x_i = W · pixels of patch i + b,   patches row by row from the top left,   x = [class token; x_1 … x_n] + positions
"""

from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.models.frontends.tokens import places
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq


@FRONTENDS.register
class PatchesConfig(FrontendConfig):
    """Pictures (B, channels, height, width), cut into squares."""

    kind: Literal["patches"] = Field("patches", description="pictures, cut into squares of pixels")
    from_data = ("channels", "height", "width")
    size: int = Field(16, gt=0, description="side of a patch in pixels; it divides height and width")
    channels: int | None = Field(None, gt=0, description="1 for grey, 3 for colour; by default the data's")
    height: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    width: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    class_token: bool = Field(False, description="a learned token before the patches, to be pooled (ViT)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components; by default the model's")
    position: Position | None = Field(None, description="positions added to the patches, the class token's included")
    norm: Norm | None = Field(None, description="normalise the sum")

    def build(self, width: int, dropout: float) -> "Patches":
        return Patches(self, width, dropout)

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        assert self.height is not None
        assert self.width is not None
        return self.height // self.size, self.width // self.size

    def with_any_size(self) -> Self:
        return self.changed(channels=self.channels or 1, height=self.height or self.size, width=self.width or self.size)


class Patches(nn.Module):
    def __init__(self, config: PatchesConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.channels is None or config.height is None or config.width is None:
            raise ConfigError("channels, height and width of the pictures are not known yet; give them, or train on pictures")
        for key, pixels in (("height", config.height), ("width", config.width)):
            if pixels % config.size:
                raise ConfigError(f"size: patches of {config.size} pixels do not divide the pictures' {key} of {pixels}")
        rows, columns = config.grid
        self.tokens_per_picture = rows * columns + config.class_token
        if config.limit is not None and config.limit < self.tokens_per_picture:
            raise ConfigError(f"position: it ends at {config.limit}, and a picture has {self.tokens_per_picture} patches")
        self.size, self.shape = config.size, (config.channels, config.height, config.width)
        self.patch = nn.Linear(config.channels * config.size**2, width)
        self.class_token = nn.Parameter(torch.zeros(width)) if config.class_token else None
        self.position = config.position.build(width) if config.position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        if source.data.shape[1:] != self.shape:
            raise ValueError(f"pictures of shape {tuple(source.data.shape[1:])} given to a model of {self.shape}")
        x = self.patch(patches(source.data, self.size))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        seq = Seq.padded(torch.full((len(x),), x.shape[1], device=x.device))
        if self.position is not None:
            x = x + self.position(places(seq), x.dtype)
        return dropout(self.norm(x), self.dropout, self.training), seq


def patches(pictures: Tensor, size: int) -> Tensor:
    """(B, C, H, W) to (B, H/size · W/size, C · size²): a patch's pixels channel by channel, row by row."""
    batch, channels, height, width = pictures.shape
    cut = pictures.reshape(batch, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)
