"""Rotary positions: queries and keys are rotated by their position, so q·k depends on the offset.

    R(p) turns each pair (x₁, x₂) of components by the angle p·θᵢ:   x₁ cos − x₂ sin,  x₁ sin + x₂ cos,     θᵢ = base^(−2i/K)

Su et al. 2021, RoFormer. Pairs are the two halves of the vector (`half`, LLaMA) or neighbours (`adjacent`, the paper).
Longer contexts than trained ones, by `scaling`:

    linear    p / factor                                                                    (Chen et al. 2023)
    ntk       the base grows with the length of each row: high frequencies stay             (bloc97 2023, "dynamic NTK")
    yarn      slow turns are stretched, fast ones kept, and the softmax is sharpened        (Peng et al. 2023)
    llama3    the same idea with two wavelength thresholds                                  (Llama 3.1)
    longrope  every frequency is divided by a factor of its own, found by search            (Ding et al. 2024)
"""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError
from attentif.kernels.rotary import Pairs, by_component, turn
from attentif.nn.seq import Seq


class ScalingConfig(Config):
    kind: str
    factor: float = Field(ge=1, description="context extension factor")

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        """θᵢ for `length` tokens: (K/2,), or (..., K/2) where lengths (...) matter."""
        raise NotImplementedError

    @property
    def by_length(self) -> bool:
        """Whether the angles depend on the sequence length."""
        return False

    def amplitude(self) -> float:
        """Factor on rotated queries and keys."""
        return 1.0


SCALINGS: Registry[ScalingConfig] = Registry("rotary scaling")
Scaling = Annotated[ScalingConfig, OneOf(SCALINGS)]


def plain(base: float | Tensor, width: int) -> Tensor:
    """θᵢ = base^(−2i/K), in float64."""
    device = base.device if isinstance(base, Tensor) else None
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


@SCALINGS.register
class LinearScaling(ScalingConfig):
    kind: Literal["linear"] = Field("linear", description="positions are divided by factor")

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        return plain(base, width) / self.factor


@SCALINGS.register
class NTKScaling(ScalingConfig):
    kind: Literal["ntk"] = Field("ntk", description="the base grows with the length of each row")
    trained: int = Field(gt=0, description="length the model was trained on")

    @property
    def by_length(self) -> bool:
        return True

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        stretch = self.factor * length.double().clamp(min=self.trained) / self.trained - (self.factor - 1)
        return plain(base * stretch[..., None] ** (width / max(width - 2, 1)), width)


@SCALINGS.register
class YarnScaling(ScalingConfig):
    kind: Literal["yarn"] = Field("yarn", description="stretch low frequencies, keep high ones")
    trained: int = Field(gt=0, description="length the model was trained on")
    fast: float = Field(32.0, gt=0, description="turns over the trained length from which a frequency is kept")
    slow: float = Field(1.0, gt=0, description="turns over the trained length below which it is divided by factor")
    rounded: bool = Field(True, description="begin and end of the ramp between the two rounded outwards to whole pairs")
    sharpen: float | None = Field(None, gt=0, description="factor on queries and keys; by default 0.1 ln(factor) + 1")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.slow >= self.fast:
            raise ValueError(f"slow = {self.slow} turns must be fewer than fast = {self.fast}")
        return self

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        def pair_turning(turns: float) -> float:  # index of the pair with this many turns over the trained length
            return width * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(base))

        begin, end = pair_turning(self.fast), pair_turning(self.slow)
        begin, end = (math.floor(begin), math.ceil(end)) if self.rounded else (begin, end)
        low, high = max(begin, 0), min(end, width - 1)
        ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        kept = plain(base, width)
        return kept / self.factor * ramp + kept * (1 - ramp)

    def amplitude(self) -> float:
        return self.sharpen or 0.1 * math.log(self.factor) + 1


@SCALINGS.register
class Llama3Scaling(ScalingConfig):
    kind: Literal["llama3"] = Field("llama3", description="Llama 3.1's two wavelength thresholds")
    trained: int = Field(gt=0, description="length the model was trained on")
    low: float = Field(1.0, gt=0, description="wavelengths above trained / low are divided by factor")
    high: float = Field(4.0, gt=0, description="wavelengths below trained / high are kept")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} must not be above high = {self.high}")
        return self

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        kept = plain(base, width)
        turns = self.trained * kept / (2 * math.pi)
        smooth = ((turns - self.low) / max(self.high - self.low, 1e-12)).clamp(0, 1)
        return (1 - smooth) * kept / self.factor + smooth * kept


@SCALINGS.register
class LongRopeScaling(ScalingConfig):
    kind: Literal["longrope"] = Field("longrope", description="a factor per frequency, for short and for long texts")
    trained: int = Field(gt=0, description="longest text that the short list is for")
    short: Annotated[tuple[float, ...], Field(strict=False)] = Field(description="what each frequency is divided by in short texts")
    long: Annotated[tuple[float, ...], Field(strict=False)] = Field(description="the same in longer texts")
    sharpen: float | None = Field(None, gt=0, description="factor on queries and keys; by default √(1 + ln(factor) / ln(trained))")

    @model_validator(mode="after")
    def _as_long(self) -> Self:
        if len(self.short) != len(self.long) or min((*self.short, *self.long), default=0.0) <= 0:
            raise ValueError("short and long must be as long as each other, and hold positive factors")
        return self

    @property
    def by_length(self) -> bool:
        return self.short != self.long

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        if len(self.short) != width // 2:
            raise ConfigError(f"rotary.scaling: {len(self.short)} factors for {width // 2} frequencies")
        short, long = (torch.tensor(factors, dtype=torch.float64, device=length.device) for factors in (self.short, self.long))
        return plain(base, width).to(length.device) / torch.where(length[..., None] > self.trained, long, short)

    def amplitude(self) -> float:
        return self.sharpen or (math.sqrt(1 + math.log(self.factor) / math.log(self.trained)) if self.factor > 1 else 1.0)


class RotaryConfig(Config):
    """Rotary positions."""

    base: float = Field(10000.0, gt=1, description="longest wavelength, in units of 2π positions")
    fraction: float = Field(1.0, gt=0, le=1, description="share of each head's width that is rotated")
    pairs: Pairs = Field("half", description="pairs of components: halves of the vector, or adjacent")
    of: Literal["heads", "input"] = Field("heads", description="rotate queries and keys, or the input of their projections")
    scaling: Scaling | None = Field(None, description="context extension: linear, ntk, yarn, llama3, longrope")

    def build(self, head_width: int) -> "Rotary":
        return Rotary(self, head_width)


class Rotary(nn.Module):
    """Rotates queries and keys (..., H, K) by the positions (...) of their tokens."""

    def __init__(self, config: RotaryConfig, head_width: int) -> None:
        super().__init__()
        self.config = config
        self.width = int(head_width * config.fraction)
        if self.width % 2 or not self.width:
            raise ConfigError(f"rotary: fraction gives {self.width} of {head_width} components; their number must be even and positive")
        self.table = (torch.empty(0, self.width),) * 2  # c and s of `kernels/rotary.py` by place, grown on demand

    @property
    def by_length(self) -> bool:
        """Whether angles depend on the length; cached keys are then inexact past the trained length."""
        return self.config.scaling is not None and self.config.scaling.by_length

    def forward(self, seq: Seq, *heads: Tensor) -> list[Tensor]:
        c, s = (t.unsqueeze(-2) for t in self.angles(seq, heads[0].dtype))  # (..., 1, K): the same for every head
        return [self.turn(x, c, s) for x in heads]

    def angles(self, seq: Seq, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return c and s (..., K) of each position's angles, scaled by the amplitude."""
        if self.by_length and seq.end > getattr(self.config.scaling, "trained", 0):
            return self.angles_by_length(seq, dtype)
        places = seq.end if seq.dense else seq.end + seq.pos.shape[1]  # covers the padding too, without a device sync
        c, s = self.table
        if len(c) < places or c.dtype != dtype or c.device != seq.pos.device:
            length = max(places, 2 * len(c), 64)
            c, s = self.cos_sin(torch.arange(length), self.frequencies(torch.zeros(())))
            c, s = self.table = c.to(seq.pos.device, dtype), s.to(seq.pos.device, dtype)
        pos = seq.pos if seq.is_packed else seq.shared_pos
        return c[pos], s[pos]

    def angles_by_length(self, seq: Seq, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return c and s where the angles depend on each row's length."""
        length = seq.lengths if seq.start is None else seq.lengths + seq.start
        c, s = self.cos_sin(seq.pos, self.frequencies(length)[seq.row])
        return c.to(dtype), s.to(dtype)

    def frequencies(self, length: Tensor) -> Tensor:
        """θᵢ in float64."""
        base, scaling = self.config.base, self.config.scaling
        return scaling.frequencies(base, self.width, length) if scaling else plain(base, self.width)

    def cos_sin(self, pos: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        angle = pos[..., None] * theta.to(pos.device)
        amplitude = self.config.scaling.amplitude() if self.config.scaling else 1.0
        return by_component(angle.cos() * amplitude, angle.sin() * amplitude, self.config.pairs)

    def turn(self, x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        if self.width == x.shape[-1]:
            return turn(x, c, s, self.config.pairs)
        return torch.cat([turn(x[..., : self.width], c, s, self.config.pairs), x[..., self.width :]], -1)
