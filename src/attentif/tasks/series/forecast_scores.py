"""Errors of forecasts, summed window by window so that no forecast need be kept.

    MSE = mean (ŷ − y)²      MAE = mean |ŷ − y|      on the standardised scale
    MASE = mean over series and channels of  MAE / (1 / (n − m)) Σ |x_t − x_{t−m}| of training, m the season (Hyndman & Koehler 2006)

Below 1, MASE says that the forecast beats the seasonal one within training, whatever the scale. Windows overlap, so intervals draw blocks
of neighbouring windows, not windows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.metrics import Floats, Interval, mean_interval
from attentif.tasks.ragged import Ints
from attentif.tasks.series.forecast_report import ChannelError
from attentif.tasks.series.windows import Floats32, Windows

CHUNK = 2_000_000  # numbers that a baseline works out at once


class Tally:
    """Sums of errors by window, by step and by channel."""

    def __init__(self, windows: Windows, naive: Floats) -> None:
        """`naive` (series, channels): the mean absolute error of the seasonal forecast within training."""
        self.windows, self.naive = windows, naive
        channels = windows.scaled.values.shape[1]
        self.squared = np.zeros((windows.horizon, channels))
        self.absolute = np.zeros((windows.horizon, channels))
        self.relative = np.zeros(channels)
        self.of_window = np.zeros((len(windows), 3))  # squared, absolute and relative error, mean over steps and channels
        self.count = 0
        borders = windows.scaled.series.borders
        self.series_of = np.searchsorted(borders, windows.starts, side="right") - 1

    def add(self, rows: Ints | Sequence[int], given: NDArray[Any], true: NDArray[Any]) -> None:
        """Forecasts (n, horizon, channels) of these windows, and what came."""
        error = np.asarray(given, dtype=np.float64) - true
        distance = np.abs(error)
        scale = self.naive[self.series_of[np.asarray(rows, dtype=np.int64)]]  # (n, channels)
        self.squared += (error**2).sum(0)
        self.absolute += distance.sum(0)
        relative = distance.mean(1) / scale
        self.relative += relative.sum(0)
        self.of_window[np.asarray(rows, dtype=np.int64)] = np.stack(
            [(error**2).mean((1, 2)), distance.mean((1, 2)), relative.mean(1)], axis=1
        )
        self.count += len(error)

    def scores(self) -> dict[str, float]:
        return dict(zip(("mse", "mae", "mase"), self.of_window.mean(0).tolist(), strict=True))

    def intervals(self) -> dict[str, Interval]:
        """By blocks of as many neighbouring windows as a horizon has steps; none where there are less than eight of them."""
        blocks = np.arange(len(self.windows)) // self.windows.horizon
        if blocks[-1] < 7:
            return {}
        counts = np.bincount(blocks)
        return {
            key: mean_interval(np.bincount(blocks, weights=self.of_window[:, place]), counts)
            for place, key in enumerate(("mse", "mae", "mase"))
        }

    def by_step(self) -> list[float]:
        """The squared error of each step of the horizon."""
        return (self.squared.mean(1) / self.count).tolist()

    def by_channel(self) -> list[ChannelError]:
        columns = self.windows.scaled.series.columns
        means = (self.squared.mean(0) / self.count, self.absolute.mean(0) / self.count, self.relative / self.count)
        return [
            {"channel": name, "mse": float(a), "mae": float(b), "mase": float(c)} for name, a, b, c in zip(columns, *means, strict=True)
        ]


def seasonal_error(values: NDArray[Any], period: int) -> Floats:
    """(channels,): how far the values of a season before are from those that came."""
    lag = period if len(values) > period else 1
    return np.maximum(np.abs(values[lag:].astype(np.float64) - values[:-lag]).mean(0), 1e-9)


def in_chunks(windows: Windows) -> Iterator[Ints]:
    """All windows in order, a few thousand numbers' worth at a time."""
    size = max(1, CHUNK // ((windows.look_back + windows.horizon) * windows.scaled.values.shape[1]))
    for start in range(0, len(windows), size):
        yield np.arange(start, min(start + size, len(windows)))


def tally_errors(windows: Windows, naive: Floats, forecast: Callable[[Floats32], NDArray[Any]]) -> Tally:
    """The errors of a rule that gives (n, horizon, channels) from what was read (n, look-back, channels)."""
    tally = Tally(windows, naive)
    for rows in in_chunks(windows):
        read, true = windows.read_and_true(rows)
        tally.add(rows, forecast(read), true)
    return tally


def last_value(read: NDArray[Any], horizon: int) -> NDArray[Any]:
    """Repeat the last value."""
    return np.repeat(read[:, -1:], horizon, axis=1)


def last_season(read: NDArray[Any], horizon: int, period: int) -> NDArray[Any]:
    """Repeat the last season."""
    return np.take(read[:, -period:], np.arange(horizon) % period, axis=1)
