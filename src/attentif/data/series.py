"""Series of measurements: tables with a column of dates and columns of numbers, checked and cut by time.

A row is a moment, a column a channel. In a *long* table one column names the series that a row belongs to; the series then stand one after
the other. Dates must rise by even steps: what is missing is refused, or filled in where that was asked for, and counted. Dates with a
time zone are instants: hours are counted in UTC, days and longer steps by the clock on the wall.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.config import SPLITS, DataConfig
from attentif.data.dates import DateColumns
from attentif.data.daylight_saving import WAY_OUT, repeats_an_hour, skips_an_hour
from attentif.data.in_memory import name_file
from attentif.data.progress import Pulse, Say
from attentif.data.readers import Tolerance
from attentif.data.series_rows import Fill, Measured, Wanted, load_built_in
from attentif.data.steps import DAY, Dates, Ints, TimeStep, format_date, have_time, step_of
from attentif.data.table import digest_of
from attentif.errors import ConfigError, DataError

Floats = NDArray[np.float64]
BY_ROW = ("values", "dates", "places", "parts")  # what a series has for each of its rows
MOST_FILLED = 10  # rows filled in for each that is there: a wrong date asks for millions


@dataclass(frozen=True)
class Series:
    """Measurements in the order of time, series after series."""

    values: Floats  # (rows, channels)
    dates: Dates  # (rows,)
    columns: list[str]
    step: TimeStep
    files: list[str]
    places: Ints  # (rows, 2): which of the files, and the line in it
    date: DateColumns = "date"  # the column that dates come from, or the columns of their parts
    names: list[str] = field(default_factory=lambda: [""])
    borders: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # (series + 1,): where each begins, and the end
    parts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # (rows,): 0 train, 1 valid, 2 test, as files had it
    utc: bool = False  # dates are instants, told in UTC
    texts: Sequence[str] = ()  # columns that hold no numbers: one of them may name the series of each row

    def __len__(self) -> int:
        return len(self.dates)

    def place(self, row: int) -> str:
        file, line = self.places[row]
        return f"{name_file(self.files[file])}:{line}"

    def error(self, message: str, row: int) -> DataError:
        return DataError(message, file=self.files[int(self.places[row, 0])], line=int(self.places[row, 1]))

    def when(self, moment: np.datetime64) -> str:
        return format_date(moment, utc=self.utc, timed=self.timed)

    @cached_property
    def timed(self) -> bool:
        """Whether the day is not all of a date: of hourly rows midnight is written too."""
        return self.step.seconds % DAY > 0 or have_time(self.dates)

    def each(self) -> Iterator[tuple[str, slice]]:
        """Every series by name, with its rows."""
        for name, start, end in zip(self.names, self.borders[:-1].tolist(), self.borders[1:].tolist(), strict=True):
            yield name, slice(start, end)

    def only(self, numbers: Sequence[int]) -> "Series":
        """These series alone, of which there is at least one."""
        kept = [slice(int(self.borders[number]), int(self.borders[number + 1])) for number in numbers]
        cut: dict[str, Any] = {key: np.concatenate([getattr(self, key)[rows] for rows in kept]) for key in BY_ROW}
        borders = np.cumsum([0, *(rows.stop - rows.start for rows in kept)])
        return replace(self, **cut, names=[self.names[number] for number in numbers], borders=borders)

    @property
    def digest(self) -> str:
        """SHA-256 of dates, values, names and the files' own splits: the same digest, the same data."""
        total = hashlib.sha256(digest_of([*self.columns, *self.names]).encode())
        for part in (self.dates.astype(np.int64), self.values, self.borders, self.parts):
            total.update(np.ascontiguousarray(part).data)
        return total.hexdigest()


def load_series(config: DataConfig, wanted: Wanted, say: Say | None = None) -> tuple[Series, list[str]]:
    """Load and check all rows of the files (train, then valid, then test) or of a built-in set; return them with notes."""
    notes: list[str] = []
    pulse = Pulse(say)
    if config.name:
        read = load_built_in(config, wanted)
    else:
        if config.group:
            raise ConfigError("data.group: series are cut by time, not by groups; what tells several series apart is data.columns.series")
        tolerance = Tolerance(config.skip_bad)
        read = Measured(replace(wanted, series=wanted.series or config.column("series")))
        for part, split in enumerate(SPLITS):
            for file in config.files(split):
                read.file(file, part, config, tolerance, notes, pulse)
        notes += tolerance.notes
    series = _assemble(read)
    notes.append(_describe(series))
    return _even(series, wanted, notes), notes


def _assemble(read: Measured) -> Series:
    """Series after series, each in the order of its rows."""
    values = np.frombuffer(read.values, dtype=np.float64).reshape(-1, len(read.columns))
    columns = (read.moments, read.series_of, read.lines, read.file_of, read.part_of)
    moments, series_of, lines, file_of, part_of = (np.frombuffer(column, dtype=np.int64) for column in columns)
    order = np.argsort(series_of, kind="stable")
    borders = np.searchsorted(series_of[order], np.arange(len(read.names) + 1))
    places = np.stack([file_of, lines], axis=1)[order]
    dates = moments[order].astype("datetime64[s]")
    found = Series(
        values[order], dates, read.columns, TimeStep(), read.files, places, read.date, list(read.names), borders, part_of[order],
        texts=read.texts,
    )  # fmt: skip
    if not read.zones:
        return replace(found, step=_step(found))
    instants = replace(found, utc=True)
    zones = np.frombuffer(read.zones, dtype=np.int64)[order].astype("timedelta64[s]")
    return _by_clock(replace(instants, step=_step(instants)), replace(found, dates=dates + zones))


# ----------------------------------------------------------------------------------------------------------- even steps


def _step(series: Series) -> TimeStep:
    """The step of the first series that has two rows, once it is known that all dates rise."""
    for name, rows in series.each():
        _check_rising(series, name, rows)
    return _first_step(series)


def _first_step(series: Series) -> TimeStep:
    for _, rows in series.each():
        if rows.stop - rows.start > 1:
            return step_of(series.dates[rows])
    raise series.error("has one row: a series needs more", 0)


def _by_clock(instants: Series, wall: Series) -> Series:
    """Dates in UTC, or as the clock on the wall has them where steps are a day or more, or where that clock alone makes them even:
    between two midnights lie 23 hours when summer time begins."""
    if any((np.diff(wall.dates[rows]).astype(np.int64) <= 0).any() for _, rows in wall.each()):
        return instants
    wall = replace(wall, step=_first_step(wall))
    first, second = (wall, instants) if wall.step.months or wall.step.seconds >= DAY else (instants, wall)
    even = lambda series: all((series.step.between(series.dates[rows]) > 0).all() for _, rows in series.each())
    return second if even(second) and not even(first) else first


def _check_rising(series: Series, name: str, rows: slice) -> None:
    gaps = np.diff(series.dates[rows]).astype(np.int64)
    if not len(gaps) or gaps.min() > 0:
        return
    row = rows.start + int(np.flatnonzero(gaps <= 0)[0]) + 1
    here, before = series.when(series.dates[row]), series.when(series.dates[row - 1])
    changed = f", as when clocks go back at the end of summer time; {WAY_OUT}"
    repeated = not series.utc and repeats_an_hour(series.dates[rows])
    column = series.texts[0] if len(series.texts) == 1 else "NAME"
    long = "" if name else f'where rows belong to several series, name their column: data.columns.series="{column}"'
    if gaps[row - 1 - rows.start] == 0:
        twice = f"the date {here}{_of(name)} stands twice (also at {series.place(row - 1)})"
        raise series.error(twice + (changed if repeated else long and f"; {long}"), row)
    way_out = "; sort the rows by date" + (long and f", or, {long}")
    raise series.error(f"dates go back{_of(name)}: {here} after {before}" + (changed if repeated else way_out), row)


def _even(series: Series, wanted: Wanted, notes: list[str]) -> Series:
    """The series without gaps and holes, or an error that names the first."""
    filled = []
    steps = holes = ahead = 0
    for name, whole in series.each():
        rows = _find_gaps(series, whole)
        ahead += whole.stop - rows.stop
        part, added = (_part(series, rows), 0) if wanted.uneven else _gaps(series, name, rows, wanted.fill)
        missing = np.isnan(part.values)
        if missing.any():
            if wanted.fill == "none":
                row, column = (int(place) for place in np.argwhere(missing)[0])
                more = f" (the first of {int(missing.sum()):,} such cells)" if missing.sum() > 1 else ""
                raise part.error(f"{series.columns[column]}: is missing{more}; fill in what is missing: task.fill=linear", row)
            if len(empty := np.flatnonzero(missing.sum(0) == len(part))):
                raise part.error(f"{series.columns[empty[0]]}: has no number at all{_of(name)}", 0)
            part = replace(part, values=_fill_missing(part.values, wanted.fill))
        steps, holes = steps + added, holes + int(missing.sum()) - added * len(series.columns)
        filled.append(part)
    if ahead:
        notes.append(f"rows without any number at the end, left out as they are still to come: {ahead:,}")
    if steps or holes:
        notes.append(f"filled in ({wanted.fill}): {steps:,} missing rows and {holes:,} missing cells")
    together: dict[str, Any] = {key: np.concatenate([getattr(part, key) for part in filled]) for key in BY_ROW}
    return replace(series, **together, borders=np.cumsum([0, *(len(part) for part in filled)]))


def _find_gaps(series: Series, rows: slice) -> slice:
    """Rows up to the last number: empty rows prepared in a spreadsheet are not measurements."""
    held = np.flatnonzero(~np.isnan(series.values[rows]).all(1))
    return slice(rows.start, rows.start + int(held[-1]) + 1) if len(held) else rows


def _part(series: Series, rows: slice) -> Series:
    cut = {key: getattr(series, key)[rows] for key in BY_ROW}
    return replace(series, **cut, borders=np.array([0, rows.stop - rows.start]))


def _gaps(series: Series, name: str, rows: slice, fill: Fill) -> tuple[Series, int]:
    """One series on the whole grid of its dates, nan in the rows that were added."""
    part = _part(series, rows)
    steps = series.step.between(part.dates)
    if (steps < 1).any():
        row = int(np.flatnonzero(steps < 1)[0]) + 1
        here, before = series.when(part.dates[row]), series.when(part.dates[row - 1])
        way_out = "task.uneven=true takes the rows as evenly spaced"
        raise part.error(f"rows are {series.step.name} apart, but {here}{_of(name)} follows {before}; {way_out}", row)
    places = np.concatenate([[0], np.cumsum(steps)])
    added = int(places[-1]) + 1 - len(part)
    if not added:
        return part, 0
    if fill == "none":
        row = int(np.flatnonzero(steps > 1)[0]) + 1
        here, before = series.when(part.dates[row]), series.when(part.dates[row - 1])
        gaps = int((steps > 1).sum())
        more = f", the first of {gaps:,} gaps" if gaps > 1 else ""
        way_out = "fill them in: task.fill=linear, or take rows as evenly spaced: task.uneven=true"
        if not series.utc and skips_an_hour(part.dates[row - 1], part.dates[row], series.step.seconds):
            way_out = f"summer time begins so: {WAY_OUT}, or {way_out}"
        missing = int(steps[row - 1]) - 1
        raise part.error(
            f"{missing:,} row{'s are' if missing > 1 else ' is'} missing{_of(name)} between {before} and {here}{more}; {way_out}", row
        )
    if added > MOST_FILLED * len(part):
        row = int(steps.argmax()) + 1
        missing, before = int(steps[row - 1]) - 1, series.when(part.dates[row - 1])
        raise part.error(
            f"{missing:,} rows are missing{_of(name)} before {series.when(part.dates[row])}, after {before}: is the date right?", row
        )
    source = np.searchsorted(places, np.arange(places[-1] + 1), side="right") - 1  # the row that was there last
    values = np.full((len(source), part.values.shape[1]), np.nan)
    values[places] = part.values
    dates = np.concatenate([part.dates[:1], series.step.after(part.dates[0], len(source) - 1)])
    return replace(part, values=values, dates=dates, places=part.places[source], parts=part.parts[source]), added


def _fill_missing(values: Floats, how: Fill) -> Floats:
    """Cells that are missing, on the line between their neighbours, as the one before (at both ends the nearest one), or 0."""
    if how == "zero":
        return np.nan_to_num(values)
    filled = values.copy()
    rows = np.arange(len(values))
    for column in filled.T:
        known = np.flatnonzero(~np.isnan(column))
        if how == "linear":
            column[:] = np.interp(rows, known, column[known])
        else:
            column[:] = column[known[np.maximum(np.searchsorted(known, rows, side="right") - 1, 0)]]
    return filled


def _of(name: str) -> str:
    return f" of series {name!r}" if name else ""


def _describe(series: Series) -> str:
    first, last = series.when(series.dates.min()), series.when(series.dates.max())
    many = f"{len(series.names):,} series, " if len(series.names) > 1 else ""
    return f"{many}{len(series):,} rows from {first} to {last}, {series.step.name} apart"
