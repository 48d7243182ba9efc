"""Absolute positions: a vector added to each token's embedding.

    sinusoidal  P(p, 2i) = sin(p / 10000^(2i/D)),  P(p, 2i+1) = cos(...)         (Vaswani et al. 2017, section 3.5)
    learned     a table, one row a place                                        (Gehring et al. 2017)
    axial       P(p) = [A(p div n), B(p mod n)]: a place as a row and a column, with two small tables (Kitaev et al. 2020)
    sinusoidal-2d  P(p) = [S(p div n), S(p mod n)]: the same with half the sinusoids for the row and half for the column, for pictures

and two that the course shows to fail:

    amplitude   P(p, ·) = p / scale: grows without bound and drowns the words
    binary      P(p, i) = bit i of p: neighbours may differ in every bit (7 = 0111, 8 = 1000), and nothing moves smoothly
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf, Pair, Registry
from attentif.errors import AttentifError, ConfigError


class PositionConfig(Config):
    kind: str

    def build(self, width: int) -> nn.Module:
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """Longest sequence it can number, or None."""
        return None


POSITIONS: Registry[PositionConfig] = Registry("position")
Position = Annotated[PositionConfig, OneOf(POSITIONS)]


def check_places(pos: Tensor, places: int) -> None:
    """Refuse a position past those that were learned; an exported graph fails at its table instead."""
    if not torch.compiler.is_exporting() and pos.numel() and (last := int(pos.max())) >= places:
        raise AttentifError(f"a sequence of {last + 1} tokens is longer than the {places} positions this model has learned")


@POSITIONS.register
class SinusoidalConfig(PositionConfig):
    """Sines and cosines of geometrically spaced wavelengths."""

    kind: Literal["sinusoidal"] = Field("sinusoidal", description="sines and cosines of geometrically spaced wavelengths")
    base: float = Field(10000.0, gt=1, description="longest wavelength, in units of 2π positions")
    halves: bool = Field(False, description="all sines first, then all cosines (Marian), instead of in turns: the same in another order")
    offset: int = Field(0, ge=0, description="the number of the first place (M2M-100's is 2)")

    def build(self, width: int) -> nn.Module:
        return SinusoidalPositions(width, self.base, self.halves, self.offset)


class SinusoidalPositions(nn.Module):
    def __init__(self, width: int, base: float, halves: bool = False, offset: int = 0) -> None:
        super().__init__()
        self.width, self.base, self.halves, self.offset = width, base, halves, offset
        self.table = torch.empty(0, width)  # computed on demand: neither a parameter nor a buffer

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        if not torch.compiler.is_exporting():  # what exports a model has computed the longest table before
            self.grow(int(pos.max()) + 1 if pos.numel() else 0, pos.device, dtype)
        return self.table[pos]

    def grow(self, places: int, device: torch.device, dtype: torch.dtype) -> None:
        """Compute the table of at least so many places."""
        if len(self.table) < places or self.table.dtype != dtype or self.table.device != device:
            self.table = self.compute(torch.arange(max(places, 2 * len(self.table)), device=device)).to(dtype)

    def compute(self, pos: Tensor) -> Tensor:
        """Compute the definition in float64: float32 loses the phase of late positions."""
        pairs = torch.arange(0, self.width, 2, device=pos.device, dtype=torch.float64)
        angle = (pos[..., None] + self.offset) * self.base ** (-pairs / self.width)  # (..., D/2)
        waves = [angle.sin(), angle.cos()[..., : self.width // 2]]
        return torch.cat(waves, -1) if self.halves else torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., : self.width]


@POSITIONS.register
class PlaneConfig(PositionConfig):
    """2D positions of patches: half the components encode the row, half the column."""

    kind: Literal["sinusoidal-2d"] = Field("sinusoidal-2d", description="sinusoids of the row and of the column of a patch")
    base: float = Field(10000.0, gt=1, description="longest wavelength, in units of 2π positions")
    columns: int = Field(64, gt=0, description="positions in a row; the frontend of pictures puts its own number of patches here")

    def build(self, width: int) -> nn.Module:
        if width % 4:
            raise ConfigError(f"position: sinusoids of a row and of a column need a width that 4 divides, not {width}")
        return PlanePositions(width, self.columns, self.base)


class PlanePositions(nn.Module):
    def __init__(self, width: int, columns: int, base: float) -> None:
        super().__init__()
        self.columns = columns
        self.axis = SinusoidalPositions(width // 2, base)

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.cat([self.axis(pos // self.columns, dtype), self.axis(pos % self.columns, dtype)], -1)


@POSITIONS.register
class LearnedConfig(PositionConfig):
    """A trained vector for each position."""

    kind: Literal["learned"] = Field("learned", description="a trained vector for each position, up to max_len")
    max_len: int = Field(512, gt=0, description="positions in the table; longer sequences are refused")
    offset: int = Field(0, ge=0, description="row of the table that position 0 uses (RoBERTa's is 2)")

    def build(self, width: int) -> nn.Module:
        return LearnedPositions(width, self.max_len, self.offset)

    @property
    def limit(self) -> int | None:
        return self.max_len


class LearnedPositions(nn.Module):
    def __init__(self, width: int, max_len: int, offset: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len + offset, width)
        self.offset = offset

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        check_places(pos, self.table.num_embeddings - self.offset)
        vectors: Tensor = self.table(pos + self.offset if self.offset else pos)
        return vectors.to(dtype)


@POSITIONS.register
class LearnedPlaneConfig(PositionConfig):
    """A trained vector for each patch of a picture, interpolated for pictures with more or fewer of them."""

    kind: Literal["learned-2d"] = Field(
        "learned-2d", description="a trained vector for each patch, interpolated to other sizes of pictures"
    )
    rows: int = Field(gt=0, description="rows of patches that were trained")
    columns: int = Field(gt=0, description="columns of patches that were trained")
    first: int = Field(
        0, ge=0, description="positions of tokens before the patches, which are not interpolated; the frontend puts them here"
    )
    antialias: bool = Field(False, description="smooth where there are fewer patches than were trained")
    shown: Pair | None = Field(None, description="rows and columns of the pictures; the frontend puts its own here")

    def build(self, width: int) -> nn.Module:
        return LearnedPlanePositions(self, width)

    @property
    def limit(self) -> int | None:
        rows, columns = self.shown or (self.rows, self.columns)
        return self.first + rows * columns


class LearnedPlanePositions(nn.Module):
    def __init__(self, config: LearnedPlaneConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.first + config.rows * config.columns, width)

    def vectors(self) -> Tensor:
        """(first + patches shown, D); bicubic, in float32, as the models that have them do (Oquab et al. 2024)."""
        rows, columns, first = self.config.rows, self.config.columns, self.config.first
        if self.config.shown in (None, (rows, columns)):
            return self.table.weight
        plane = self.table.weight[first:].T.reshape(1, -1, rows, columns).float()
        other = F.interpolate(plane, self.config.shown, mode="bicubic", align_corners=False, antialias=self.config.antialias)
        return torch.cat([self.table.weight[:first], other.flatten(2)[0].T.to(self.table.weight)])

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        vectors = self.vectors()
        check_places(pos, len(vectors))
        return vectors[pos].to(dtype)


@POSITIONS.register
class AxialConfig(PositionConfig):
    """Positions laid out as a rectangle, with a trained vector for each row and each column."""

    kind: Literal["axial"] = Field("axial", description="a trained vector for each row and each column that positions are laid out in")
    shape: Pair = Field((64, 64), description="rows and columns; their product is the longest text")
    widths: Pair | None = Field(None, description="components for rows and for columns; by default a quarter and the rest")

    def build(self, width: int) -> nn.Module:
        rows, columns = self.widths or (width // 4, width - width // 4)
        if rows + columns != width:
            raise ConfigError(f"position.widths = {[rows, columns]} make {rows + columns} components, the model has {width}")
        return AxialPositions(self.shape, (rows, columns))

    @property
    def limit(self) -> int | None:
        return self.shape[0] * self.shape[1]


class AxialPositions(nn.Module):
    def __init__(self, shape: tuple[int, int], widths: tuple[int, int]) -> None:
        super().__init__()
        self.rows, self.columns = (nn.Embedding(count, width) for count, width in zip(shape, widths, strict=True))

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        row = pos // self.columns.num_embeddings
        check_places(pos, self.rows.num_embeddings * self.columns.num_embeddings)
        return torch.cat([self.rows(row), self.columns(pos % self.columns.num_embeddings)], -1).to(dtype)


@POSITIONS.register
class AmplitudeConfig(PositionConfig):
    """The position itself as a number; fails on purpose."""

    kind: Literal["amplitude"] = Field("amplitude", description="the position itself in every component: fails, for the course")
    scale: float = Field(1.0, gt=0, description="divisor of the position")

    def build(self, width: int) -> nn.Module:
        return AmplitudePositions(width, self.scale)


class AmplitudePositions(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.width, self.scale = width, scale

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        return (pos[..., None].to(dtype) / self.scale).expand(*pos.shape, self.width)


@POSITIONS.register
class BinaryConfig(PositionConfig):
    """The bits of the position; fails on purpose."""

    kind: Literal["binary"] = Field("binary", description="the bits of the position, one a component: shown in the course because it fails")

    def build(self, width: int) -> nn.Module:
        return BinaryPositions(width)


class BinaryPositions(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        bits = torch.arange(min(self.width, 62), device=pos.device)  # the rest of a wide vector stays 0: no place needs more bits
        code = (pos[..., None] >> bits) & 1
        return nn.functional.pad(code, (0, self.width - len(bits))).to(dtype)
