"""Positional biases added to the attention scores: score(q, k) + b(q_pos, k_pos), one b per head.

    alibi      b = −m_h · |q_pos − k_pos|,   m_h = 2^(−8h/H)                            (Press et al. 2022)
    alibi-rounded  b = −s · |r(m_h q_pos) − r(m_h k_pos)|, r rounds to bfloat16, m_h too                 (Falcon-RW)
    relative   b = table[bucket(k_pos − q_pos), h]: learned, exact for near tokens, logarithmic for far ones   (T5, Raffel et al. 2020)
    relative-2d  b = table[row(q) − row(k), column(q) − column(k), h], and a value from, to and of the class token   (Bao et al. 2022)
    distances  no number but a vector p for each distance, for `mixers/disentangled.py` to score            (He et al. 2021, DeBERTa)

The module is registered once on the stack; its attention mixers share it.
"""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry
from attentif.nn.norm import Norm


class PositionBiasConfig(Config):
    kind: str
    heads: int = Field(gt=0, description="heads of the attention that uses it")

    def build(self) -> nn.Module:
        raise NotImplementedError


BIASES: Registry[PositionBiasConfig] = Registry("bias")
Bias = Annotated[PositionBiasConfig, OneOf(BIASES)]


@BIASES.register
class ALiBiConfig(PositionBiasConfig):
    """A penalty proportional to the distance, with a slope per head."""

    kind: Literal["alibi"] = Field("alibi", description="a fixed penalty proportional to the distance")

    def build(self) -> nn.Module:
        return ALiBi(self.heads)


class ALiBi(nn.Module):
    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        slopes = torch.tensor(alibi_slopes(heads), device="cpu")  # also in a model that is built without memory, to be filled from a file
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        distance = (q_pos[..., :, None] - k_pos[..., None, :]).abs()
        return -self.slopes[:, None, None] * distance[..., None, :, :]  # (..., H, T, S)


def alibi_slopes(heads: int) -> list[float]:
    """Return 2^(−8h/H); heads beyond a power of two take every other slope of the next power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * (heads - power), 2)]


@BIASES.register
class RoundedALiBiConfig(PositionBiasConfig):
    """ALiBi as Falcon-RW was trained with it: in bfloat16, and scaled as the scores are."""

    kind: Literal["alibi-rounded"] = Field("alibi-rounded", description="ALiBi in bfloat16, scaled as the scores are (Falcon-RW)")
    scale: float = Field(1.0, gt=0, description="s: factor on the penalties (Falcon-RW: 1/√head_width)")

    def build(self) -> nn.Module:
        return RoundedALiBi(self.heads, self.scale)


class RoundedALiBi(ALiBi):
    """What is added to a score there is s · r(m_h k_pos): here, less what is the same for all keys of a query."""

    def __init__(self, heads: int, scale: float) -> None:
        super().__init__(heads)
        self.scale = scale

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        slopes = self.slopes.bfloat16()[:, None]
        q, k = ((slopes * pos[..., None, :].bfloat16()).float() for pos in (q_pos, k_pos))  # (..., H, T)
        return -self.scale * (q[..., :, None] - k[..., None, :]).abs()


@BIASES.register
class RelativeConfig(PositionBiasConfig):
    """T5's learned bias per distance bucket."""

    kind: Literal["relative"] = Field("relative", description="learned, by bucket of distance (T5)")
    buckets: int = Field(32, ge=2, description="number of buckets; half exact, half logarithmic")
    max_distance: int = Field(128, gt=1, description="distance from which the last bucket applies")
    bidirectional: bool = Field(True, description="separate buckets for earlier and later keys")

    @property
    def exact(self) -> int:
        """Number of distances, in one direction, with a bucket of their own."""
        return self.buckets // 2 // 2 if self.bidirectional else self.buckets // 2

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.bidirectional and (self.buckets % 2 or self.buckets < 4):
            raise ValueError(f"buckets = {self.buckets} must be even and at least 4 for both directions")
        if self.max_distance <= self.exact:
            raise ValueError(f"max_distance = {self.max_distance} must exceed the {self.exact} exact buckets")
        return self

    def build(self) -> nn.Module:
        return RelativeBias(self)


class RelativeBias(nn.Module):
    def __init__(self, config: RelativeConfig) -> None:
        super().__init__()
        self.config, self.heads = config, config.heads
        self.table = nn.Embedding(config.buckets, config.heads)

    def bucket(self, offset: Tensor) -> Tensor:
        """Return the bucket of k_pos − q_pos."""
        buckets = self.config.buckets
        base = torch.zeros_like(offset)
        if self.config.bidirectional:
            buckets //= 2
            base = (offset > 0) * buckets
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = self.config.exact
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.config.max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return base + torch.where(distance < exact, distance, far)

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        offset = k_pos[..., None, :] - q_pos[..., :, None]
        values: Tensor = self.table(self.bucket(offset))  # (..., T, S, H)
        return values.movedim(-1, -3)


@BIASES.register
class RelativePlaneConfig(PositionBiasConfig):
    """A learned bias for each offset in rows and columns, of patches after a class token."""

    kind: Literal["relative-2d"] = Field("relative-2d", description="learned, by the distance in rows and in columns of patches (BEiT)")
    rows: int = Field(gt=0, description="rows of patches")
    columns: int = Field(gt=0, description="columns of patches; a class token stands before them")

    def build(self) -> nn.Module:
        return RelativePlane(self)


class RelativePlane(nn.Module):
    """Rows of the table: offsets from (−rows + 1, −columns + 1) on, then class token to patch, patch to class token, class to class."""

    def __init__(self, config: RelativePlaneConfig) -> None:
        super().__init__()
        self.rows, self.columns, self.heads = config.rows, config.columns, config.heads
        self.max_len = 1 + config.rows * config.columns
        self.offsets = (2 * config.rows - 1) * (2 * config.columns - 1)
        self.table = nn.Embedding(self.offsets + 3, config.heads)

    def index(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """The row of the table for every query and key; the class token is at position 0."""
        q, k = q_pos[..., :, None], k_pos[..., None, :]
        split = lambda pos: ((pos - 1).div(self.columns, rounding_mode="floor"), (pos - 1) % self.columns)
        (q_row, q_column), (k_row, k_column) = split(q), split(k)
        found = (q_row - k_row + self.rows - 1) * (2 * self.columns - 1) + q_column - k_column + self.columns - 1
        found = torch.where(k == 0, self.offsets + 1, found)
        return torch.where(q == 0, self.offsets + 2 * (k == 0), found)

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        values: Tensor = self.table(self.index(q_pos, k_pos))  # (..., T, S, H)
        return values.movedim(-1, -3)


BY_POSITION = (RelativePlane, RoundedALiBi)  # biases that do not follow from the distance alone


@BIASES.register
class DistancesConfig(PositionBiasConfig):
    """DeBERTa's vectors of distances, which disentangled attention scores."""

    kind: Literal["distances"] = Field("distances", description="a learned vector for each distance, for disentangled attention (DeBERTa)")
    width: int = Field(gt=0, description="components of a vector: as many as the model has")
    span: int = Field(512, gt=0, description="distances told apart on each side; those further away share the last vector")
    reach: int | None = Field(
        None, gt=1, description="distance that the last vector stands for, logarithmic from span / 2 on; by default exact"
    )
    norm: Norm | None = Field(None, description="normalise the vectors")

    @model_validator(mode="after")
    def _room_for_two(self) -> Self:
        if self.reach is not None and (self.span < 4 or self.reach - 1 <= self.span // 2):
            raise ValueError(f"reach = {self.reach} must be further than half of span = {self.span}, which must be 4 at least")
        return self

    def build(self) -> nn.Module:
        return DistanceVectors(self)


class DistanceVectors(nn.Module):
    def __init__(self, config: DistancesConfig) -> None:
        super().__init__()
        self.config, self.heads = config, config.heads
        self.table = nn.Embedding(2 * config.span, config.width)
        self.norm = config.norm.build(config.width) if config.norm else nn.Identity()

    def vectors(self) -> Tensor:
        """(2 · span, D): that of the distance d in row span + d."""
        found: Tensor = self.norm(self.table.weight)
        return found

    def index(self, length: int, device: torch.device) -> Tensor:
        """(T, T): the row of the distance i − j, for a query at i and a key at j."""
        places = torch.arange(length, device=device)
        offset = places[:, None] - places
        return (self.bucket(offset) + self.config.span).clamp(0, 2 * self.config.span - 1)

    def bucket(self, offset: Tensor) -> Tensor:
        """Distances as they are up to span / 2, then logarithmic up to `reach`."""
        if self.config.reach is None:
            return offset
        exact = self.config.span // 2
        # in float32, as what was trained with it: a rounding decides between two buckets
        ratio = torch.log(offset.abs().clamp(min=1) / exact) / torch.log(
            torch.tensor((self.config.reach - 1) / exact, device=offset.device)
        )
        far = torch.ceil(ratio * (exact - 1)) + exact
        return torch.where(offset.abs() <= exact, offset, (far * offset.sign()).long())
