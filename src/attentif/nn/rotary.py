"""Rotary positions: queries and keys are turned by an angle proportional to their place, so that q·k depends on the offset alone.

    R(p) turns each pair (x₁, x₂) of components by the angle p·θᵢ:   x₁ cos − x₂ sin,  x₁ sin + x₂ cos,     θᵢ = base^(−2i/K)

Su et al. 2021, RoFormer. Pairs are the two halves of the vector (`half`, LLaMA) or neighbours (`adjacent`, the paper).
Longer contexts than trained ones, by `scaling`:

    linear    p / factor                                                                    (Chen et al. 2023)
    ntk       the base grows with the length of each row: high frequencies stay             (bloc97 2023, "dynamic NTK")
    yarn      slow turns are stretched, fast ones kept, and the softmax is sharpened        (Peng et al. 2023)
    llama3    the same idea with two wavelength thresholds                                  (Llama 3.1)
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
    factor: float = Field(ge=1, description="how many times longer than trained")

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        """θᵢ for reading `length` tokens: (K/2,), or (..., K/2) for lengths (...) where they matter."""
        raise NotImplementedError

    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


SCALINGS: Registry[ScalingConfig] = Registry("rotary scaling")


def plain(base: float | Tensor, width: int) -> Tensor:
    """θᵢ = base^(−2i/K), in float64."""
    device = base.device if isinstance(base, Tensor) else None
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


@SCALINGS.register
class LinearScaling(ScalingConfig):
    kind: Literal["linear"] = Field("linear", description="places are divided by factor")

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        return plain(base, width) / self.factor


@SCALINGS.register
class NTKScaling(ScalingConfig):
    kind: Literal["ntk"] = Field("ntk", description="the base grows with the length of each row")
    trained: int = Field(gt=0, description="length the model was trained on")

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        stretch = self.factor * length.double().clamp(min=self.trained) / self.trained - (self.factor - 1)
        return plain(base * stretch[..., None] ** (width / max(width - 2, 1)), width)


@SCALINGS.register
class YarnScaling(ScalingConfig):
    kind: Literal["yarn"] = Field("yarn", description="slow turns are stretched, fast ones kept")
    trained: int = Field(gt=0, description="length the model was trained on")
    fast: float = Field(32.0, gt=0, description="turns over the trained length from which a frequency is kept")
    slow: float = Field(1.0, gt=0, description="turns over the trained length below which it is divided by factor")
    sharpen: float | None = Field(None, gt=0, description="factor on queries and keys; by default 0.1 ln(factor) + 1")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.slow >= self.fast:
            raise ValueError(f"slow = {self.slow} turns must be fewer than fast = {self.fast}")
        return self

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        def pair_turning(turns: float) -> float:  # the (fractional) pair that makes so many turns over the trained length
            return width * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(base))

        low, high = max(math.floor(pair_turning(self.fast)), 0), min(math.ceil(pair_turning(self.slow)), width - 1)
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
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self

    def frequencies(self, base: float, width: int, length: Tensor) -> Tensor:
        kept = plain(base, width)
        turns = self.trained * kept / (2 * math.pi)
        smooth = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - smooth) * kept / self.factor + smooth * kept


class RotaryConfig(Config):
    """Rotary positions of an attention."""

    base: float = Field(10000.0, gt=1, description="longest wavelength, in units of 2π places")
    fraction: float = Field(1.0, gt=0, le=1, description="part of each head's width that is turned")
    pairs: Pairs = Field("half", description="which components turn together: halves of the vector, or neighbours")
    of: Literal["heads", "input"] = Field(
        "heads", description="what is turned: queries and keys, or what they are projected from, head by head of its components"
    )
    scaling: Annotated[ScalingConfig, OneOf(SCALINGS)] | None = Field(
        None, description="for longer contexts than trained: linear, ntk, yarn, llama3"
    )

    def build(self, head_width: int) -> "Rotary":
        return Rotary(self, head_width)


class Rotary(nn.Module):
    """Turns (..., H, K) queries and keys by the places (...) of their tokens."""

    def __init__(self, config: RotaryConfig, head_width: int) -> None:
        super().__init__()
        self.config = config
        self.width = int(head_width * config.fraction)
        if self.width % 2 or not self.width:
            raise ConfigError(f"rotary: {self.width} of {head_width} components are to be turned; their number must be even and positive")
        self.table = (torch.empty(0, self.width),) * 2  # c and s of `kernels/rotary.py` by place, grown on demand

    @property
    def by_length(self) -> bool:
        """Whether the angles depend on the length read, which makes a cache of turned keys inexact past the trained length."""
        return isinstance(self.config.scaling, NTKScaling)

    def forward(self, seq: Seq, *heads: Tensor) -> list[Tensor]:
        c, s = (t.unsqueeze(-2) for t in self.angles(seq, heads[0].dtype))  # (..., 1, K): the same for every head
        return [self.turn(x, c, s) for x in heads]

    def angles(self, seq: Seq, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """c and s (..., K) of each place's angles, the scaling's amplitude included."""
        if isinstance(scaling := self.config.scaling, NTKScaling) and seq.end > scaling.trained:
            return self.angles_by_length(seq, dtype)
        places = seq.end if seq.dense else seq.end + seq.pos.shape[1]  # enough for the padding too, without asking the device
        c, s = self.table
        if len(c) < places or c.dtype != dtype or c.device != seq.pos.device:
            length = max(places, 2 * len(c), 64)
            c, s = self.cos_sin(torch.arange(length), self.frequencies(torch.zeros(())))
            c, s = self.table = c.to(seq.pos.device, dtype), s.to(seq.pos.device, dtype)
        pos = seq.pos if seq.is_packed else seq.places
        return c[pos], s[pos]

    def angles_by_length(self, seq: Seq, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The same where each row has angles of its own."""
        length = seq.lengths if seq.start is None else seq.lengths + seq.start
        c, s = self.cos_sin(seq.pos, self.frequencies(length)[seq.row])
        return c.to(dtype), s.to(dtype)

    def frequencies(self, length: Tensor) -> Tensor:
        """The definition, in float64."""
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
