"""What frontends of pictures share: the pictures' size, and the grid of tokens that each becomes."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.models.frontends.base import FrontendConfig
from attentif.models.frontends.tokens import position_ids
from attentif.nn.position import LearnedPlaneConfig, PlaneConfig, Position
from attentif.nn.seq import Seq


class PictureConfig(FrontendConfig):
    """Base of the frontends that read pictures (B, channels, height, width)."""

    from_data: ClassVar[tuple[str, ...]] = ("channels", "height", "width")
    channels: int | None = Field(None, gt=0, description="1 for grey, 3 for colour; by default the data's")
    height: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    width: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    position: Position | None = Field(None, description="positions added to the tokens: sinusoidal-2d, learned, axial, ...")

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tokens."""
        raise NotImplementedError

    @property
    def tokens_per_picture(self) -> int:
        rows, columns = self.grid
        return len(self.names_before) + rows * columns

    @property
    def names_before(self) -> list[str]:
        """The learned tokens before those of the grid, by name."""
        return []

    @property
    def numbered_before(self) -> int:
        """How many of them have a position."""
        return 0

    def known_size(self) -> tuple[int, int, int]:
        """Channels, height and width; ConfigError while they are not known."""
        if self.channels is None or self.height is None or self.width is None:
            raise ConfigError("channels, height and width of the pictures are not known yet; give them, or train on pictures")
        return self.channels, self.height, self.width

    def check(self) -> None:
        """Refuse sizes that cannot be read."""
        raise NotImplementedError


def build_position(config: PictureConfig, width: int) -> nn.Module | None:
    """The positions of a frontend; `sinusoidal-2d` numbers tokens by row and column of its grid."""
    position = config.position
    if isinstance(position, PlaneConfig):
        position = position.replace(columns=config.grid[1])
    if isinstance(position, LearnedPlaneConfig):
        position = position.replace(shown=config.grid, first=config.numbered_before)
    return position.build(width) if position else None


def add_position(position: nn.Module | None, x: Tensor) -> Tensor:
    return x if position is None else x + position(position_ids(full_seq(x)), x.dtype)


def full_seq(x: Tensor) -> Seq:
    """The Seq of rows (B, T, D) that are all of one length."""
    return Seq.from_mask(x.new_ones(x.shape[:2], dtype=torch.bool), dense=True)
