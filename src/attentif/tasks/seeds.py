"""The mean of a score over seeds: x̄ ± t_{n-1} s / √n (Student 1908)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attentif.tasks.metrics import LEVEL


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over seeds; interval and deviation are nan where there is one seed only."""

    value: float
    low: float  # 95 % interval
    high: float
    deviation: float  # of one run from the mean
    runs: int

    @property
    def bounds(self) -> tuple[float, float] | tuple[None, None]:
        """The interval; none where there is one seed only, as JSON and figures have it."""
        return (None, None) if math.isnan(self.low) else (self.low, self.high)


def mean(values: Sequence[float], level: float = LEVEL) -> Mean:
    """Mean with its interval; ValueError without values."""
    if not len(values):
        raise ValueError("a mean needs a value at least")
    x = np.asarray(values, dtype=np.float64)
    value, runs = float(x.mean()), len(x)
    if runs < 2:
        return Mean(value, math.nan, math.nan, math.nan, runs)
    from scipy.special import stdtrit

    deviation = float(x.std(ddof=1))
    half = float(stdtrit(runs - 1, (1 + level) / 2)) * deviation / math.sqrt(runs)
    return Mean(value, value - half, value + half, deviation, runs)
