"""Rows of tables of measurements: dates, numbers and locations."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attentif.data.config import DataConfig
from attentif.data.dates import DateColumns, columns_of, describe_date, find_date, join_parts
from attentif.data.file_format import list_missing_settings
from attentif.data.numeric import in_points, is_french, is_number, number_of
from attentif.data.progress import Pulse
from attentif.data.readers import PlainText, Reader, Tolerance, first_cells, open_reader, text_problem
from attentif.data.steps import parse_date
from attentif.errors import DataError

Fill = Literal["none", "linear", "previous", "zero"]
Decimal = Literal["point", "comma"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to read of a table of measurements."""

    columns: Sequence[str] = ()  # by default all that hold numbers
    date: DateColumns | None = None  # by default recognised by its name, or the names of its parts
    series: str | None = None  # names the series of each row in a long table
    date_format: str | None = None  # as strptime has it; by default ISO 8601
    decimal: Decimal = "point"  # what stands before the decimals of a number
    fill: Fill = "none"
    uneven: bool = False  # rows count as evenly spaced, whatever their dates


class Measured:
    """Rows as they come, file after file."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.columns: list[str] = list(wanted.columns)
        self.date: DateColumns = wanted.date or "date"
        self.texts: list[str] = []
        self.files: list[str] = []
        self.values, self.moments = array("d"), array("q")
        self.zones = array("q")  # seconds from UTC, of rows whose dates have a time zone: all, or none
        self.names: dict[str, int] = {}  # of the series, in the order in which they are met
        self.series_of, self.lines, self.file_of, self.part_of = array("q"), array("q"), array("q"), array("q")

    def file(self, path: Path, part: int, config: DataConfig, tolerance: Tolerance, notes: list[str], pulse: Pulse) -> None:
        try:
            reader = open_reader(path, tolerance)
        except DataError as error:
            if error.line is None:  # nothing was read of it
                raise
            raise DataError(error.message + self._all_at_once(path), file=error.file, line=error.line, code=error.code) from None
        if isinstance(reader, PlainText):
            raise DataError("is plain text; a series is a CSV, TSV, JSONL or Parquet file with a column of dates", file=path)
        self.date = self.wanted.date or find_date(reader, config)
        dates = columns_of(self.date)
        keys = [*dates, *([self.wanted.series] if self.wanted.series else [])]
        for name in [*keys, *self.columns]:
            if name not in reader.columns:
                raise DataError(f"no column is called {name!r}; the columns are {', '.join(map(repr, reader.columns[:12]))}", file=path)
        if self.wanted.date_format and not isinstance(self.date, str) and "time" not in self.date:
            raise DataError(f"task.date_format goes with written dates, not {describe_date(self.date, reader.columns)}", file=path)
        if not self.columns:
            self._find_columns(reader, keys, notes)
        if not self.files:
            said = f"{describe_date(self.date, reader.columns)}, numbers from {', '.join(map(repr, self.columns))}"
            notes.append(f"{reader.about}: {said}")
        number = len(self.files)
        self.files.append(str(path))
        before = len(self.lines)
        for line, cells in reader.cells([*keys, *self.columns]):
            try:
                row = array("d", map(self._number, self.columns, cells[len(keys) :]))
                moment, zone = self._moment(cells[: len(dates)])
                name = _series_name(self.wanted.series, cells[len(dates)]) if self.wanted.series else ""
            except ValueError as error:
                tolerance.bad(str(error) + (self._all_at_once(path) if len(self.lines) == before else ""), path, line)
                continue
            self.values.extend(row)
            self.moments.append(moment)
            if zone is not None:
                self.zones.append(zone)
            self.series_of.append(self.names.setdefault(name, len(self.names)))
            self.lines.append(line)
            self.file_of.append(number)
            self.part_of.append(part)
            if len(self.lines) % 4096 == 0:
                pulse(lambda: f"reading {path}: {len(self.lines):,} rows")
        if len(self.lines) == before:
            raise DataError("has no rows, only a header", file=path)
        self._oldest_first(before, path, notes)

    def _all_at_once(self, path: Path) -> str:
        """All settings that a file lacks when its first row cannot be read, so that errors do not come one by one."""
        decimal, dates = self.wanted.decimal == "point", self.wanted.date_format is None
        ask = list_missing_settings(path, decimal=decimal, dates=dates)
        return f"; all that this file asks for: {ask}" if "," in ask else ""

    def _find_columns(self, reader: Reader, keys: list[str], notes: list[str]) -> None:
        """The numeric columns of the first file; other columns are reported."""
        others = [name for name in reader.columns if name and name not in keys]
        if not (first := first_cells(reader.path, others)):
            raise DataError("has no rows, only a header", file=reader.path)
        numeric = [name for place, name in enumerate(others) if any(is_number(cells[place]) or is_french(cells[place]) for cells in first)]
        if not numeric:
            found = ", ".join(f"{name!r} holds {str(cell)[:40]!r}" for name, cell in zip(others[:3], first[0], strict=False))
            raise DataError(f"has no column of numbers beside {', '.join(map(repr, keys))}{found and f': {found}'}", file=reader.path)
        self.columns = numeric
        self.texts = [name for name in others if name not in numeric]
        if self.texts:
            notes.append(f"left out, as they hold no numbers: {', '.join(map(repr, self.texts))}")

    def _number(self, column: str, value: Any) -> float:
        """A cell as a number, its decimals behind a point or, where that was asked for, a comma; never a guess."""
        if self.wanted.decimal == "comma" and isinstance(value, str):
            if "." in value:
                raise ValueError(f"{column}: {value!r} has a point, and task.decimal=comma asks for commas")
            return number_of(column, in_points(value) if is_french(value) else value)
        if is_french(value):
            raise ValueError(f"{column}: {value!r} is not a number; decimals are written with a point, or else task.decimal=comma")
        return number_of(column, value)

    def _moment(self, cells: Sequence[Any]) -> tuple[int, int | None]:
        value = cells[0] if isinstance(self.date, str) else join_parts(self.date, cells)
        try:
            moment, zone = parse_date(value, self.wanted.date_format)
        except (ValueError, OverflowError):
            as_asked = f"as {self.wanted.date_format}" if self.wanted.date_format else "such as 2024-02-01 or 2024-02-01 13:00"
            way_out = 'say how they are written: task.date_format="%d/%m/%Y %H:%M"'
            raise ValueError(f"{str(value)!r} is not a date {as_asked}; {way_out}") from None
        if self.moments and (zone is None) == bool(self.zones):
            has, had = ("no time zone", "has one") if zone is None else ("a time zone", "has none")
            first = f"{self.files[self.file_of[0]]}:{self.lines[0]}"
            raise ValueError(f"{str(value)!r} has {has}, and the first date ({first}) {had}; give it to all dates, or to none")
        return moment, zone

    def _oldest_first(self, begin: int, path: Path, notes: list[str]) -> None:
        """Reverse a file in which every series runs backwards in time, with a note."""
        moments, series = (np.array(column[begin:]) for column in (self.moments, self.series_of))
        order = np.argsort(series, kind="stable")
        same = np.diff(series[order]) == 0
        if not same.any() or (np.diff(moments[order])[same] >= 0).any():
            return
        width = len(self.columns)
        self.values[begin * width :] = array("d", np.array(self.values[begin * width :]).reshape(-1, width)[::-1].tobytes())
        for column in (self.moments, self.zones, self.series_of, self.lines):
            column[begin:] = column[begin:][::-1]
        notes.append(f"{path} goes back in time: its rows are read from the last to the first")


def _series_name(column: str, cell: Any) -> str:
    """The series of a row; ValueError if the cell is not a text."""
    if isinstance(cell, str) and (problem := text_problem(cell)):
        raise ValueError(f"{column}: {problem}")
    return str(cell)


def load_built_in(config: DataConfig, wanted: Wanted) -> Measured:
    from attentif.data.builtin import BUILTIN

    entry = BUILTIN[str(config.name)]
    if "date" not in entry.roles:
        raise DataError(f"the built-in set {entry.name!r} has no date (it has {', '.join(entry.roles)}): it is for another task")
    read = Measured(replace(wanted, date="date"))
    channels = [role for role in entry.roles if role != "date"]
    if unknown := [name for name in read.columns if name not in channels]:
        raise DataError(f"the built-in set {entry.name!r} has no {unknown[0]!r} (it has {', '.join(channels)})")
    read.columns = read.columns or channels
    read.names = {"": 0}
    for part, (split, columns) in enumerate(entry.load(config.seed).items()):
        read.files.append(f"{entry.name}/{split}")
        count = len(columns["date"])
        read.moments.extend(parse_date(moment, None)[0] for moment in columns["date"])
        read.values.extend(np.stack([columns[name] for name in read.columns], axis=1).astype(np.float64).ravel().tolist())
        read.lines.extend(range(1, count + 1))
        for numbers, number in ((read.series_of, 0), (read.file_of, part), (read.part_of, part)):
            numbers.extend([number] * count)
    return read
