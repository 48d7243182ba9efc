"""Details of an evaluation for the report: errors by step, direct against rolled-out forecasts, a few forecasts."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attentif.models import Model, eval_mode
from attentif.tasks.answers import EvalOptions
from attentif.tasks.batches import iterate_batches
from attentif.tasks.narrow import labels_of
from attentif.tasks.series.forecast_report import ForecastDetails, ModesCompared, ShownChannel, ShownForecast
from attentif.tasks.series.forecast_scores import Tally, last_season, last_value, tally_errors
from attentif.tasks.series.rollout import predict_next, roll_blocks
from attentif.tasks.series.windows import Windows

if TYPE_CHECKING:
    from attentif.tasks.series.forecast import Forecast, ForecastState

SHOWN_CHANNELS = 4  # of a forecast
MOST_SERIES = 300  # to choose from in the report
COMPARED = 128  # windows on which a direct forecast is also rolled out
RANKS = {"good": 0.1, "ordinary": 0.5, "bad": 0.9}  # windows shown, by the share of those that are forecast better


def collect_details(
    task: "Forecast", model: Model, state: "ForecastState", windows: Windows, tally: Tally, options: EvalOptions
) -> ForecastDetails:
    """Collect plain data, enough to draw the report's section."""
    return {
        "by_step": _by_step(task, state, tally, windows),
        "by_channel": tally.by_channel(),
        "rolled": _compare_modes(task, model, state, windows, options),
        "forecasts": [_show_ranked(task, model, state, windows, tally, rank) for rank in RANKS],
        "every": _show_every_series(task, model, state, windows, tally),
        "quantiles": task.config.quantiles,
        "mode": task.config.mode,
    }


def _by_step(task: "Forecast", state: "ForecastState", tally: Tally, windows: Windows) -> dict[str, list[float]]:
    """The squared error of each step of the horizon, of the model and of what needs no training."""
    naive, horizon, period = task.naive(state, windows), windows.horizon, state.period or 1
    found = {"model": tally.by_step(), "last": tally_errors(windows, naive, lambda read: last_value(read, horizon)).by_step()}
    if 1 < period <= windows.look_back:
        found["season"] = tally_errors(windows, naive, lambda read: last_season(read, horizon, period)).by_step()
    return found


def _compare_modes(task: "Forecast", model: Model, state: "ForecastState", windows: Windows, options: EvalOptions) -> ModesCompared:
    """On some windows: a direct forecast and the same model rolled out; or a rolled-out one and the same told the truth at each step."""
    rows = windows.pick(COMPARED)
    block = max(1, windows.horizon // 4)
    forecast = lambda source: task.forecast(model, state, source)
    sums = {"direct": np.zeros(windows.horizon), "rolled": np.zeros(windows.horizon)}
    with eval_mode(model):
        for batch in iterate_batches(model, windows, EvalOptions(options.budget), rows):
            if task.config.mode == "rollout":
                first = predict_next(model, batch)[0][:, -windows.horizon :]
                second = forecast(batch.source)
            else:
                first = forecast(batch.source)
                second = roll_blocks(forecast, batch.source, windows.horizon, block, task.median)
            for key, own in (("direct", first), ("rolled", second)):
                sums[key] += (task.median(own) - labels_of(batch)).square().mean(-1).sum(0).double().cpu().numpy()
    direct, rolled = ((sums[key] / len(rows)).tolist() for key in ("direct", "rolled"))
    return {"block": block, "windows": len(rows), "direct": direct, "rolled": rolled}


def _show_ranked(task: "Forecast", model: Model, state: "ForecastState", windows: Windows, tally: Tally, rank: str) -> ShownForecast:
    """The forecast of a window of that rank; of a wide table, the first columns."""
    errors = tally.of_window[:, 0]
    row = int(np.argsort(errors, kind="stable")[round(RANKS[rank] * (len(errors) - 1))])
    shown = _show_forecast(task, model, state, windows, row, float(errors[row]))
    return {**shown, "rank": rank, "channels": shown["channels"][:SHOWN_CHANNELS]}


def _show_every_series(task: "Forecast", model: Model, state: "ForecastState", windows: Windows, tally: Tally) -> list[ShownForecast]:
    """The last forecast of each series, where the ranked ones leave some out."""
    columns, names = windows.scaled.series.columns, windows.scaled.series.names
    if len(names) == 1 and len(columns) <= SHOWN_CHANNELS:
        return []
    numbers = [windows.scaled.find_series(int(start)) for start in windows.starts]
    last = {number: row for row, number in enumerate(numbers)}
    chosen = list(last.values())[: max(1, MOST_SERIES // len(columns))]
    return [_show_forecast(task, model, state, windows, row, float(tally.of_window[row, 0])) for row in chosen]


def _show_forecast(task: "Forecast", model: Model, state: "ForecastState", windows: Windows, row: int, mse: float) -> ShownForecast:
    """The forecast of one window with what was read before it, in the file's own numbers."""
    scaled, series = windows.scaled, windows.scaled.series
    start = int(windows.starts[row]) + windows.look_back
    before = min(windows.look_back, 2 * windows.horizon)
    steps = slice(start - before, start + windows.horizon)
    number = scaled.find_series(start)
    given = scaled.unscale(np.moveaxis(task.bands(model, state, windows.batch([row]))[0], -1, 0), number)  # (Q, horizon, channels)
    channels: list[ShownChannel] = [
        {"name": name, "values": shorten(series.values[steps, place]), "given": [shorten(own[:, place]) for own in given]}
        for place, name in enumerate(series.columns)
    ]
    return {
        "rank": "last",
        "mse": mse,
        "place": windows.place(row),
        "series": series.names[number],
        "dates": [series.when(date) for date in series.dates[steps]],
        "channels": channels,
    }


def shorten(values: NDArray[Any]) -> list[float]:
    """Round to six significant digits."""
    return [float(f"{value:.6g}") for value in values]
