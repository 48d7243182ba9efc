"""Forecast the steps after the last row of a file."""

import json
from typing import TYPE_CHECKING

import numpy as np

from attentif.data import DataConfig
from attentif.data.series import Series
from attentif.data.steps import TimeStep, calendar
from attentif.errors import DataError
from attentif.models import Batch, Model
from attentif.tasks.answers import Prediction
from attentif.tasks.base import Example
from attentif.tasks.details import TableAnswer
from attentif.tasks.series.forecast_details import shorten
from attentif.tasks.series.windows import Scaled, Windows, build_batch

if TYPE_CHECKING:
    from attentif.tasks.series.forecast import Forecast, ForecastState


def predict_file(task: "Forecast", model: Model, state: "ForecastState", given: str | Example) -> list[Prediction]:
    """The horizon after the last row of each series of an input, as a table with dates and quantiles."""
    config = task.config
    scaled, name, notes = read_input(task, state, given)
    series, found = scaled.series, []
    for number, (own, rows) in enumerate(series.each()):
        if rows.stop - rows.start < config.look_back:
            of = f" of series {own!r}" if own else ""
            raise DataError(f"has {rows.stop - rows.start:,} rows{of}, and the model reads {config.look_back}", file=series.files[0])
        dates = series.step.after(series.dates[rows.stop - 1], config.horizon)
        bands = scaled.unscale(np.moveaxis(task.bands(model, state, window_ending(task, scaled, rows.stop))[0], -1, 0), number)
        columns: dict[str, list[str] | list[float]] = {"series": [own] * len(dates)} if own else {}
        columns["date"] = [series.when(date) for date in dates]
        for channel, column in enumerate(series.columns):
            columns[column] = shorten(bands[config.middle, :, channel])
            others = ((q, own) for place, (q, own) in enumerate(zip(config.quantiles, bands, strict=False)) if place != config.middle)
            columns |= {f"{column} q{q:g}": shorten(band[:, channel]) for q, band in others}
        table = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        said = f"{len(table)} steps, {table[0]['date']} to {table[-1]['date']}"
        found.append(
            Prediction(
                f"{name}: {own}" if own else name,
                said,
                details=TableAnswer(table=table, notes=notes) if notes else TableAnswer(table=table),
            )
        )
    return found


def read_input(task: "Forecast", state: "ForecastState", given: str | Example) -> tuple[Scaled, str, list[str]]:
    """The rows of a file, or those of an example of the test split; what to call them; and what was done to read them."""
    if isinstance(given, str):
        series, notes = task.load_series(state, DataConfig(train=given))
        return task.scale(state, series), given, notes
    values, dates = np.array(json.loads(given["values"])), np.array(json.loads(given["dates"]), dtype="datetime64[s]")
    series = Series(
        values=values,
        dates=dates,
        columns=list(state.columns),
        step=TimeStep(*json.loads(given["step"])),
        files=["example"],
        places=np.zeros((len(dates), 2), np.int64),
        names=[given["series"]],
        borders=np.array([0, len(dates)]),
        parts=np.zeros(len(dates), np.int64),
        utc=json.loads(given["utc"]),
    )
    return task.scale(state, series), f"{series.when(dates[0])} – {series.when(dates[-1])}", []


def make_example(windows: Windows, row: int) -> Example:
    """What a window reads, as an example that `asked` understands."""
    series, start = windows.scaled.series, int(windows.starts[row])
    rows = slice(start, start + windows.look_back)
    return {
        "series": series.names[windows.scaled.find_series(start)],
        "dates": json.dumps([str(date) for date in series.dates[rows]]),
        "values": json.dumps(series.values[rows].tolist()),
        "step": json.dumps([series.step.seconds, series.step.months]),
        "utc": json.dumps(series.utc),
    }


def window_ending(task: "Forecast", scaled: Scaled, end: int) -> Batch:
    """The last look-back before row `end`, with the calendar of the horizon that follows."""
    look_back, series = task.config.look_back, scaled.series
    rows = slice(end - look_back, end)
    dates = np.concatenate([series.dates[rows], series.step.after(series.dates[end - 1], task.config.horizon)])
    return build_batch(scaled.values[None, rows], calendar(dates)[None], look_back, np.zeros(1, np.int64))
