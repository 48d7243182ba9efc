"""Hourly series with trend, two seasons and a calendar, generated: visits to a shop, the temperature outside, the power it takes.

    level        L_t = exp(0.08 · years + a_t),                        a_t a slow random walk that comes back to 0
    visits       100 · L_t · day(hour) · week(weekday) · pay(date) · noise
    temperature  12 − 9 cos(2π (day of the year − 15) / 365) + 4 sin(2π (hour − 9) / 24) + weather_t
    power        20 + 0.12 · visits + 1.6 · max(0, 16 − temperature) + noise

A linear look-back does not solve it. The day's and the week's curve multiply each other and the level, and the heating has a kink, where a
linear map only adds; and on the 1st and the 15th of each month, pay days, visits rise by four fifths: months are 28 to 31 days long, so no
fixed distance in the past announces them. Who reads the calendar knows. The noise of a step is drawn anew and nobody can forecast it.
"""

import numpy as np

from attentif.data.builtin.registry import BuiltIn, Splits

FIRST = np.datetime64("2021-01-01T00", "h")
ROWS = {"train": 24 * 730, "valid": 24 * 150, "test": 24 * 215}
WEEK = np.array([0.95, 0.9, 0.95, 1.0, 1.2, 1.45, 0.45])  # Monday to Sunday
PAY_DAYS = (1, 15)


def load(seed: int = 0) -> Splits:
    """Three splits that follow one another, hour by hour from 2021 to 2023."""
    random = np.random.default_rng([seed, 2021])
    total = sum(ROWS.values())
    dates = FIRST + np.arange(total)
    days = dates.astype("datetime64[D]")
    hour, weekday = np.arange(total) % 24, (days.astype(np.int64) + 3) % 7
    day_of_month = (days - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1
    day_of_year = (days - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)

    level = np.exp(0.08 * np.arange(total) / 8766 + random_walk(random, total, memory=24 * 20, size=0.12))
    open_hours = 0.06 + np.exp(-0.5 * ((hour - 12) / 2.2) ** 2) + 1.2 * np.exp(-0.5 * ((hour - 18) / 1.8) ** 2)
    pay = np.where(np.isin(day_of_month, PAY_DAYS), 1.8, 1.0)
    visits = 100 * level * open_hours * WEEK[weekday] * pay * np.exp(random.normal(0, 0.06, total))
    warmth = 12 - 9 * np.cos(2 * np.pi * (day_of_year - 15) / 365) + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    temperature = warmth + random_walk(random, total, memory=60, size=2.5) + random.normal(0, 0.3, total)
    power = 20 + 0.12 * visits + 1.6 * np.maximum(0, 16 - temperature) + random.normal(0, 0.8, total)

    return split_by_time(dates, {"visits": visits, "temperature": temperature, "power": power}, ROWS)


def random_walk(random: np.random.Generator, rows: int, *, memory: float, size: float) -> np.ndarray:
    """x_t = φ x_{t−1} + ε_t, which forgets after about `memory` steps and is `size` large."""
    keep = np.exp(-1 / memory)
    steps = random.normal(0, size * np.sqrt(1 - keep**2), rows)
    walk, x = np.empty(rows), random.normal(0, size)
    for row, step in enumerate(steps):
        x = keep * x + step
        walk[row] = x
    return walk


def split_by_time(dates: np.ndarray, columns: dict[str, np.ndarray], rows: dict[str, int]) -> Splits:
    """Splits that follow one another, numbers with two decimals."""
    splits: Splits = {}
    start = 0
    for split, count in rows.items():
        part = slice(start, start + count)
        values = {name: np.round(own[part], 2).tolist() for name, own in columns.items()}
        splits[split] = {"date": dates[part].astype(str).tolist()} | values
        start += count
    return splits


SET = BuiltIn(
    name="seasons",
    roles=("date", "visits", "temperature", "power"),
    description="hourly series with trend, two seasons and pay days",
    size="17,520 train, 3,600 valid, 5,160 test hours of 3 series",
    synthetic=True,
    load=load,
)
