"""What an evaluation keeps for the report: errors step by step, direct beside rolled out, a few forecasts as the file has the numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attentif.models import Model, evaluating
from attentif.tasks.feed import each_batch
from attentif.tasks.series.forecast_scores import Tally, last_season, last_value, tallied
from attentif.tasks.series.rollout import one_step, rolled
from attentif.tasks.series.windows import Windows

if TYPE_CHECKING:
    from attentif.tasks.series.forecast import Forecast

SHOWN_CHANNELS = 4  # of a forecast
COMPARED = 128  # windows on which a direct forecast is also rolled out
RANKS = {"good": 0.1, "ordinary": 0.5, "bad": 0.9}  # windows shown, by the share of those that are forecast better


def details_of(task: "Forecast", model: Model, windows: Windows, tally: Tally, budget: int) -> dict[str, Any]:
    """Plain data, enough to draw the report's part again."""
    return {
        "by_step": _by_step(task, tally, windows),
        "by_channel": tally.by_channel(),
        "rolled": _compared(task, model, windows, budget),
        "forecasts": [_shown(task, model, windows, tally, rank) for rank in RANKS],
        "quantiles": task.config.quantiles,
        "mode": task.config.mode,
    }


def _by_step(task: "Forecast", tally: Tally, windows: Windows) -> dict[str, list[float]]:
    """The squared error of each step of the horizon, of the model and of what needs no training."""
    naive, horizon, period = task.naive(windows), windows.horizon, task.config.period or 1
    found = {"model": tally.by_step(), "last": tallied(windows, naive, lambda read: last_value(read, horizon)).by_step()}
    if 1 < period <= windows.look_back:
        found["season"] = tallied(windows, naive, lambda read: last_season(read, horizon, period)).by_step()
    return found


def _compared(task: "Forecast", model: Model, windows: Windows, budget: int) -> dict[str, Any]:
    """On some windows: a direct forecast and the same model rolled out; or a rolled-out one and the same told the truth at each step."""
    rows = windows.some(COMPARED)
    block = max(1, windows.horizon // 4)
    sums = {"direct": np.zeros(windows.horizon), "rolled": np.zeros(windows.horizon)}
    with evaluating(model):
        for batch in each_batch(model, windows, budget, rows=rows):
            assert batch.labels is not None
            if task.config.mode == "rollout":
                first = one_step(model, batch)[0][:, -windows.horizon :]
                second = task.forecast(model, batch.source)
            else:
                first = task.forecast(model, batch.source)
                second = rolled(model, batch.source, windows.horizon, block, task.median)
            for key, own in (("direct", first), ("rolled", second)):
                sums[key] += (task.median(own) - batch.labels).square().mean(-1).sum(0).double().cpu().numpy()
    return {"block": block, "windows": len(rows)} | {key: (total / len(rows)).tolist() for key, total in sums.items()}


def _shown(task: "Forecast", model: Model, windows: Windows, tally: Tally, rank: str) -> dict[str, Any]:
    """The forecast of one window with what was read before it, in the file's own numbers."""
    errors = tally.of_window[:, 0]
    row = int(np.argsort(errors, kind="stable")[round(RANKS[rank] * (len(errors) - 1))])
    scaled, series = windows.scaled, windows.scaled.series
    start = int(windows.starts[row]) + windows.look_back
    before = min(windows.look_back, 2 * windows.horizon)
    steps = slice(start - before, start + windows.horizon)
    number = scaled.number_of(start)
    given = scaled.restored(np.moveaxis(task.bands(model, windows.batch([row]))[0], -1, 0), number)  # (Q, horizon, channels)
    channels = [
        {"name": name, "values": shortened(series.values[steps, place]), "given": [shortened(own[:, place]) for own in given]}
        for place, name in enumerate(series.columns[:SHOWN_CHANNELS])
    ]
    return {
        "rank": rank,
        "mse": float(errors[row]),
        "place": windows.place(row),
        "series": series.names[number],
        "dates": [series.when(date) for date in series.dates[steps]],
        "channels": channels,
    }


def shortened(values: NDArray[Any]) -> list[float]:
    """Six digits each: no measurement has more to say."""
    return [float(f"{value:.6g}") for value in values]
