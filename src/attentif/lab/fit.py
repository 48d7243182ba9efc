"""Power laws, and where two of them cross.

    y = a n^b         log y = log a + b log n, a straight line by least squares; the interval of b is Student's

Where a length was measured several times, the line goes through the means of its logarithms: what keeps measurements off a power law (a
cache that is too small, a fixed cost) is the same in every repetition, so that repetitions must not make the interval narrower. With two
lengths only there is nothing to tell this from, and the interval is that of the repetitions.

The ratio of two curves is a power law too. They cross where the line through log y₁ − log y₂ is zero, at x₀ = −α / β; its interval holds
all x at which α + β x is not told from zero (Fieller 1954):

    (α + β x)² ≤ t² (v_α + 2 x v_αβ + x² v_β)

It is bounded where β is told from zero; where it is not, the curves are parallel as far as one can see, and no crossing is given.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """y = factor · n ** exponent."""

    factor: float
    exponent: float
    low: float  # 95 % interval of the exponent; nan where two points leave nothing to judge it by
    high: float
    points: int  # different n
    r2: float  # share of the variance of log y that it explains

    def __call__(self, n: float) -> float:
        return float(self.factor * n**self.exponent)


@dataclass(frozen=True, slots=True)
class Crossover:
    """The n at which two fitted curves are equal."""

    n: float
    low: float  # 95 % interval; 0 and inf where two points leave nothing to judge it by
    high: float
    below: Literal["first", "second"]  # which of the two is lower for smaller n


def power_law(n: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Fitted to measurements y at n, of which there may be several; ValueError with fewer than two different n, or numbers not positive."""
    x, logs = _logarithms(n), _logarithms(y)
    line, points = _line(x, logs)
    half = _t(line.freedom) * math.sqrt(line.of_slope) if line.freedom else math.nan
    residuals = logs - line.at(x)
    spread = float(((logs - logs.mean()) ** 2).sum())
    r2 = 1 - float((residuals**2).sum()) / spread if spread else 1.0
    slope = line.slope
    return PowerLaw(factor=math.exp(line.at(0.0)), exponent=slope, low=slope - half, high=slope + half, points=points, r2=r2)


def crossover(n: Sequence[float], first: Sequence[float], second: Sequence[float]) -> Crossover | None:
    """Where the curves through measurements at the same n cross; None where they are parallel, as far as one can see."""
    line, _ = _line(_logarithms(n), _logarithms(first) - _logarithms(second))
    if line.slope == 0:
        return None
    root = line.center - line.mean / line.slope
    below: Literal["first", "second"] = "first" if line.slope > 0 else "second"
    if not line.freedom:
        return Crossover(_exp(root), 0.0, math.inf, below)
    t2 = _t(line.freedom) ** 2
    # with x counted from the center, α (the mean) and β (the slope) are independent: v_αβ = 0
    a, b, c = line.slope**2 - t2 * line.of_slope, 2 * line.mean * line.slope, line.mean**2 - t2 * line.of_mean
    if a <= 0:
        return None
    width = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return Crossover(_exp(root), _exp(line.center + (-b - width) / (2 * a)), _exp(line.center + (-b + width) / (2 * a)), below)


class _Line(NamedTuple):
    """y = mean + slope (x - center), with the variances of both and the degrees of freedom that these were judged by."""

    center: float
    mean: float
    slope: float
    of_mean: float
    of_slope: float
    freedom: int

    def at(self, x: float | Floats) -> float | Floats:
        return self.mean + self.slope * (x - self.center)


def _line(x: Floats, y: Floats) -> tuple[_Line, int]:
    """The line, and through how many different x it goes."""
    if len(x) != len(y):
        raise ValueError(f"{len(x)} sizes and {len(y)} measurements: there must be as many")
    places, groups = np.unique(x, return_inverse=True)
    if len(places) < 2:
        raise ValueError("a curve needs two different sizes at least")
    if len(places) > 2:
        x, y = places, np.bincount(groups, weights=y) / np.bincount(groups)
    center, mean = float(x.mean()), float(y.mean())
    spread = float(((x - center) ** 2).sum())
    slope = float(((x - center) * (y - mean)).sum()) / spread
    freedom = len(x) - 2
    noise = float(((y - mean - slope * (x - center)) ** 2).sum()) / freedom if freedom else 0.0
    return _Line(center, mean, slope, noise / len(x), noise / spread, freedom), len(places)


def _logarithms(values: Sequence[float]) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError("a power law is fitted to positive numbers only")
    return np.log(found)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _t(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
