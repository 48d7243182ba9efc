"""Forecasts in small tables: every step where one or two numbers are forecast, else a line for each of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attentif.view.words import Text, Words, number

MOST_COLUMNS = 2  # forecast numbers that stand beside each other, a line for each step
BAND = re.compile(r"(.*) q0?\.\d+")  # of the columns with quantiles

Value = str | float | None
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class ForecastTable:
    """What is shown of forecasts; `steps` are counted over all series, each of so many `numbers`."""

    columns: list[Words]
    rows: list[list[Words]]
    steps: int
    numbers: int
    whole: bool  # whether every step is there


def forecast_table(rows: Sequence[Row]) -> ForecastTable:
    """A table of at most 80 columns of text: the value with the outermost quantiles around it."""
    series: dict[Value, list[Row]] = {}
    for row in rows:
        series.setdefault(row.get("series"), []).append(row)
    bands = find_bands(rows[0])
    values = [*bands]
    cell = lambda row, name: with_band(row[name], [row[other] for other in bands[name]])
    if len(series) == 1 and len(values) <= MOST_COLUMNS:
        shown: list[list[Words]] = [[str(row["date"]), *(cell(row, name) for name in values)] for row in rows]
        return ForecastTable([Text("date", "date"), *values], shown, len(rows), len(values), whole=True)
    lines: list[list[Words]] = []
    for own, steps in series.items():
        for name in values:
            mean = sum(float(row[name] or 0) for row in steps) / len(steps)
            called = [str(own)] if len(values) == 1 and own is not None else [name] if own is None else [f"{own}: {name}"]
            lines.append([*called, cell(steps[0], name), cell(steps[-1], name), number(mean)])
    first, last = ({str(steps[place]["date"]) for steps in series.values()} for place in (0, -1))
    heads: list[Words] = [
        first.pop() if len(first) == 1 else Text("premier pas", "first step"),
        last.pop() if len(last) == 1 else Text("dernier pas", "last step"),
    ]
    return ForecastTable([Text("série", "series"), *heads, Text("moyenne", "mean")], lines, len(rows), len(lines), whole=False)


def find_bands(row: Row) -> dict[str, list[str]]:
    """The columns that are forecast, each with the columns of its quantiles."""
    names = [name for name in row if name not in ("series", "date")]
    values = [name for name in names if not ((band := BAND.fullmatch(name)) and band[1] in names)]
    return {name: [other for other in names if (band := BAND.fullmatch(other)) and band[1] == name] for name in values}


def first_forecast(row: Row) -> tuple[str, list[str]]:
    return next(iter(find_bands(row).items()))


def with_band(value: Value, band: Sequence[Value]) -> Text:
    """ "11.33 (10.14 to 12.40)" """
    middle = number(float(value or 0))
    ends = [number(float(end)) for end in (min(band, key=_float), max(band, key=_float)) if end is not None] if len(band) > 1 else []
    if len(ends) < 2:
        return Text(middle.fr, middle.en)
    return Text(f"{middle.fr} ({ends[0].fr} à {ends[1].fr})", f"{middle.en} ({ends[0].en} to {ends[1].en})")


def _float(value: Value) -> float:
    return float(value or 0)
