"""Rotary positions: queries and keys are turned by an angle proportional to their place, so that q·k depends on the offset alone.

    R(p) turns each pair (x₁, x₂) of components by the angle p·θᵢ:   x₁ cos − x₂ sin,  x₁ sin + x₂ cos,     θᵢ = base^(−2i/K)

Su et al. 2021, RoFormer. Pairs are the two halves of the vector (`half`, LLaMA) or neighbours (`adjacent`, the paper).
Longer contexts than trained ones, by `scaling`:

    linear    p / factor                                                                    (Chen et al. 2023)
    ntk       the base grows with the length read: high frequencies stay                    (bloc97 2023, "dynamic NTK")
    yarn      slow turns are stretched, fast ones kept, and the softmax is sharpened        (Peng et al. 2023)
    llama3    the same idea with two wavelength thresholds                                  (Llama 3.1)
"""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError


class ScalingConfig(Config):
    kind: str
    factor: float = Field(gt=0, description="how many times longer than trained")

    def frequencies(self, base: float, width: int, length: int) -> Tensor:
        """θᵢ for reading `length` tokens."""
        raise NotImplementedError

    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


SCALINGS: Registry[ScalingConfig] = Registry("rotary scaling")


def plain(base: float, width: int) -> Tensor:
    """θᵢ = base^(−2i/K), in float64."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


@SCALINGS.register
class LinearScaling(ScalingConfig):
    kind: Literal["linear"] = Field("linear", description="places are divided by factor")

    def frequencies(self, base: float, width: int, length: int) -> Tensor:
        return plain(base, width) / self.factor


@SCALINGS.register
class NTKScaling(ScalingConfig):
    kind: Literal["ntk"] = Field("ntk", description="the base grows with the length read")
    trained: int = Field(gt=0, description="length the model was trained on")

    def frequencies(self, base: float, width: int, length: int) -> Tensor:
        stretch = self.factor * max(length, self.trained) / self.trained - (self.factor - 1)
        return plain(base * stretch ** (width / (width - 2)), width)


@SCALINGS.register
class YarnScaling(ScalingConfig):
    kind: Literal["yarn"] = Field("yarn", description="slow turns are stretched, fast ones kept")
    trained: int = Field(gt=0, description="length the model was trained on")
    fast: float = Field(32.0, gt=0, description="turns over the trained length from which a frequency is kept")
    slow: float = Field(1.0, gt=0, description="turns over the trained length below which it is divided by factor")
    sharpen: float | None = Field(None, gt=0, description="factor on queries and keys; by default 0.1 ln(factor) + 1")

    def frequencies(self, base: float, width: int, length: int) -> Tensor:
        def pair_turning(turns: float) -> float:  # the (fractional) pair that makes so many turns over the trained length
            return width * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(base))

        low, high = max(math.floor(pair_turning(self.fast)), 0), min(math.ceil(pair_turning(self.slow)), width - 1)
        ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        kept = plain(base, width)
        return kept / self.factor * ramp + kept * (1 - ramp)

    def amplitude(self) -> float:
        return self.sharpen or (0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0)


@SCALINGS.register
class Llama3Scaling(ScalingConfig):
    kind: Literal["llama3"] = Field("llama3", description="Llama 3.1's two wavelength thresholds")
    trained: int = Field(gt=0, description="length the model was trained on")
    low: float = Field(1.0, gt=0, description="wavelengths above trained / low are divided by factor")
    high: float = Field(4.0, gt=0, description="wavelengths below trained / high are kept")

    def frequencies(self, base: float, width: int, length: int) -> Tensor:
        kept = plain(base, width)
        turns = self.trained * kept / (2 * math.pi)
        smooth = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - smooth) * kept / self.factor + smooth * kept


class RotaryConfig(Config):
    """Rotary positions of an attention."""

    base: float = Field(10000.0, gt=1, description="longest wavelength, in units of 2π places")
    fraction: float = Field(1.0, gt=0, le=1, description="part of each head's width that is turned")
    pairs: Literal["half", "adjacent"] = Field("half", description="which components turn together: halves of the vector, or neighbours")
    scaling: Annotated[ScalingConfig, OneOf(SCALINGS)] | None = Field(
        None, description="for longer contexts than trained: linear, ntk, yarn, llama3"
    )

    def build(self, head_width: int) -> "Rotary":
        return Rotary(self, head_width)


class Rotary(nn.Module):
    """Turns (..., H, K) queries or keys by their places (...)."""

    def __init__(self, config: RotaryConfig, head_width: int) -> None:
        super().__init__()
        self.config = config
        self.width = int(head_width * config.fraction)
        if self.width % 2 or not self.width:
            raise ConfigError(f"rotary: {self.width} of {head_width} components are to be turned; their number must be even and positive")
        self.cos = self.sin = torch.empty(0, self.width // 2)  # tables by place, grown on demand
        self.length = 0  # that the tables were made for

    def tables(self, pos: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin (..., K/2) of each place's angles, the scaling's amplitude included."""
        places = int(pos.max()) + 1 if pos.numel() else 1
        stale = self.cos.dtype != dtype or self.cos.device != pos.device
        if places > self.length or stale or (self.by_length and places != self.length):
            self.length = places if self.by_length else max(places, 2 * self.length, 64)
            self.cos, self.sin = (table.to(pos.device, dtype) for table in self.compute(self.length))
        return self.cos[pos], self.sin[pos]

    @property
    def by_length(self) -> bool:
        """Whether the angles depend on the length read, which makes a cache of turned keys inexact past the trained length."""
        return isinstance(self.config.scaling, NTKScaling)

    def compute(self, length: int) -> tuple[Tensor, Tensor]:
        """The definition, in float64."""
        scaling = self.config.scaling
        theta = scaling.frequencies(self.config.base, self.width, length) if scaling else plain(self.config.base, self.width)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * theta
        amplitude = scaling.amplitude() if scaling else 1.0
        return angle.cos() * amplitude, angle.sin() * amplitude

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        cos, sin = (table.unsqueeze(-2) for table in self.tables(pos, x.dtype))  # (..., 1, K/2): the same for every head
        turned, kept = x[..., : self.width], x[..., self.width :]
        if self.config.pairs == "half":
            a, b = turned.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        return torch.cat([turned, kept], -1) if kept.shape[-1] else turned
