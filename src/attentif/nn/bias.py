"""Position as a number added to the scores: score(q, k) + b(q_pos, k_pos), one b for each head.

    alibi      b = −m_h · |q_pos − k_pos|,   m_h = 2^(−8h/H)                            (Press et al. 2022)
    relative   b = table[bucket(k_pos − q_pos), h]: learned, exact for near tokens, logarithmic for far ones   (T5, Raffel et al. 2020)

The module is registered once on the stack; its attention mixers only refer to it.
"""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry


class BiasConfig(Config):
    kind: str
    heads: int = Field(gt=0, description="heads of the attention that uses it")

    def build(self) -> nn.Module:
        raise NotImplementedError


BIASES: Registry[BiasConfig] = Registry("bias")
Bias = Annotated[BiasConfig, OneOf(BIASES)]


@BIASES.register
class ALiBiConfig(BiasConfig):
    """A penalty that grows with the distance, steeper for some heads than for others."""

    kind: Literal["alibi"] = Field("alibi", description="a penalty that grows with the distance, not learned")

    def build(self) -> nn.Module:
        return ALiBi(self.heads)


class ALiBi(nn.Module):
    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("slopes", torch.tensor(slopes_of(heads)), persistent=False)

    def forward(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        distance = (q_pos[..., :, None] - k_pos[..., None, :]).abs()
        return -self.slopes[:, None, None] * distance[..., None, :, :]  # (..., H, T, S)


def slopes_of(heads: int) -> list[float]:
    """2^(−8h/H) for a power of two; else those of the power below, then every other one of the power above, as the authors do."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * (heads - power), 2)]


@BIASES.register
class RelativeConfig(BiasConfig):
    """T5's learned bias by bucket of distance."""

    kind: Literal["relative"] = Field("relative", description="learned, by bucket of distance (T5)")
    buckets: int = Field(32, ge=2, description="distinct distances; half of them exact, half logarithmic")
    max_distance: int = Field(128, gt=1, description="distance from which all share the last bucket")
    bidirectional: bool = Field(True, description="separate buckets for what comes before and after")

    @property
    def exact(self) -> int:
        """Distances, in one direction, that have a bucket of their own."""
        return self.buckets // 2 // 2 if self.bidirectional else self.buckets // 2

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.bidirectional and (self.buckets % 2 or self.buckets < 4):
            raise ValueError(f"buckets = {self.buckets} must be even, and 4 at least, to be shared by both directions")
        if self.max_distance <= self.exact:
            raise ValueError(f"max_distance = {self.max_distance} must exceed the {self.exact} distances that have a bucket of their own")
        return self

    def build(self) -> nn.Module:
        return RelativeBias(self)


class RelativeBias(nn.Module):
    def __init__(self, config: RelativeConfig) -> None:
        super().__init__()
        self.config, self.heads = config, config.heads
        self.table = nn.Embedding(config.buckets, config.heads)

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of k_pos − q_pos."""
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
