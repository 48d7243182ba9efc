"""Half-hourly series at a harbour, generated: seasons that are no whole number of steps, a slow trend, a gauge that was moved.

    tide     h_t = 120 cos(2πt / 12.4206) + 40 cos(2πt / 12 + 1) + 15 cos(2πt / 25.8193 + 2),    t in hours: moon, sun, moon by day
    level    300 + h_t + 0.0012 h_t² + 3 · years + surge_t + moved_t           shallow water bends the curve; surge_t: two days of weather
    current  the tide's change within an hour · (1 + 0.002 h_t) + noise
    salt     34 − 0.8 · level of the river, which jumps with rain and falls off over a week, + 0.01 h_t

moved_t is 0, from three fifths of training on 25, and from a third of the test on −10: level breaks. No default of a recipe was chosen
here.
"""

import numpy as np

from attentif.data.builtin.registry import BuiltIn, Splits
from attentif.data.builtin.seasons import random_walk, split_by_time

FIRST = np.datetime64("2022-03-01T00:00", "m")
ROWS = {"train": 48 * 300, "valid": 48 * 60, "test": 48 * 90}


def load(seed: int = 0) -> Splits:
    """Three splits that follow one another, every half-hour for 15 months."""
    random = np.random.default_rng([seed, 2022])
    total = sum(ROWS.values())
    dates = FIRST + 30 * np.arange(total)
    hours = np.arange(total) / 2
    turn = lambda period, phase: np.cos(2 * np.pi * hours / period + phase)
    tide = 120 * turn(12.4206, 0.0) + 40 * turn(12.0, 1.0) + 15 * turn(25.8193, 2.0)
    moved = np.zeros(total)
    moved[3 * ROWS["train"] // 5 :] = 25
    moved[total - 2 * ROWS["test"] // 3 :] = -10
    level = 300 + tide + 0.0012 * tide**2 + 3 * hours / 8766 + random_walk(random, total, memory=96, size=12) + moved
    current = np.gradient(tide, 0.5) * (1 + 0.002 * tide) + random.normal(0, 3, total)
    rain = np.where(random.random(total) < 1 / (48 * 6), random.exponential(3, total), 0.0)
    river = np.convolve(rain, np.exp(-np.arange(48 * 40) / (48 * 7)))[:total]
    salt = 34 - 0.8 * river + 0.01 * tide + random.normal(0, 0.1, total)
    return split_by_time(dates, {"level": level + random.normal(0, 1.5, total), "current": current, "salt": salt}, ROWS)


SET = BuiltIn(
    name="tides",
    roles=("date", "level", "current", "salt"),
    description="half-hourly series of a harbour: tides, surges, a gauge that was moved",
    size="14,400 train, 2,880 valid, 4,320 test half-hours of 3 series",
    synthetic=True,
    load=load,
)
