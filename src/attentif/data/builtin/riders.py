"""Daily series of a city's transport, generated: weeks and years that multiply, a trend that bends, strikes, and a fall that lasts.

    growth  G_t = exp(∫ s),       s a slope that is drawn anew each 300 days on average, between −10 % and 15 % a year
    year    Y_t = 1 + 0.15 cos(2π (day of the year − 20) / 365) − 0.35 in the first three weeks of August
    break   B_t = 1, but 0.6 from one day of training on, on its way back to 0.9 within 250 days; 0.4 on the days of strikes
    bus     40 · G B Y · week · noise      tram  25 · G² B Y · week · noise      bikes  8 · G week' · warmth(temperature) · noise

A level that falls at once, slopes that change and weeks that multiply: what a linear map of standardised values has learned on one level
does not hold on the next. No default of a recipe was chosen here.
"""

import numpy as np

from attentif.data.builtin.registry import BuiltIn, Splits
from attentif.data.builtin.seasons import random_walk, split_by_time

FIRST = np.datetime64("2016-01-01", "D")
ROWS = {"train": 2000, "valid": 365, "test": 450}
WORK = np.array([1.0, 1.05, 1.04, 1.05, 1.0, 0.6, 0.4])  # Monday to Sunday
LEISURE = np.array([0.9, 0.9, 0.95, 0.95, 1.0, 1.2, 1.1])
FALL = 1300  # the day of the lasting break
STRIKES = 12  # of three to ten days


def load(seed: int = 0) -> Splits:
    """Three splits that follow one another, day by day from 2016 to 2023."""
    random = np.random.default_rng([seed, 2016])
    total = sum(ROWS.values())
    dates = FIRST + np.arange(total)
    weekday = (dates.astype(np.int64) + 3) % 7
    day_of_year = (dates - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)

    bends = np.cumsum(random.random(total) < 1 / 300)
    growth = np.exp(np.cumsum(random.uniform(-0.10, 0.15, bends[-1] + 1)[bends]) / 365)
    year = 1 + 0.15 * np.cos(2 * np.pi * (day_of_year - 20) / 365) - 0.35 * ((day_of_year >= 213) & (day_of_year < 234))
    broken = np.where(np.arange(total) < FALL, 1.0, 0.6 + 0.3 * np.clip((np.arange(total) - FALL) / 250, 0, 1))
    for first in random.integers(0, total, STRIKES):
        broken[first : first + random.integers(3, 11)] *= 0.4
    temperature = 12 - 9 * np.cos(2 * np.pi * (day_of_year - 15) / 365) + random_walk(random, total, memory=4, size=3)
    noise = lambda size: np.exp(random.normal(0, size, total))
    bus = 40 * growth * broken * year * WORK[weekday] * noise(0.03)
    tram = 25 * growth**2 * broken * year * WORK[weekday] * noise(0.03)
    bikes = 8 * growth * LEISURE[weekday] * (0.3 + np.clip(temperature, 0, 25) / 25) * (1.5 - 0.5 * broken) * noise(0.08)
    return split_by_time(dates, {"bus": bus, "tram": tram, "bikes": bikes}, ROWS)


SET = BuiltIn(
    name="riders",
    roles=("date", "bus", "tram", "bikes"),
    description="daily series of a city's transport: weeks, years, bends, strikes, a lasting fall",
    size="2,000 train, 365 valid, 450 test days of 3 series",
    synthetic=True,
    load=load,
)
