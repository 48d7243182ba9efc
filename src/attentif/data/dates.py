"""The date of a row: a column of dates, days beside hours, or a column for each part, from the year down: year, month ..."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attentif.data.columns import NAMES, Roles, bare, find_columns
from attentif.data.config import DataConfig
from attentif.data.month_names import MONTH
from attentif.data.readers import Reader, first_cells
from attentif.errors import DataError

# The column of dates, or those of its parts: {"year": "an", "month": "mois"}, {"date": "Date", "time": "Heure"}
DateColumns = str | Mapping[str, str]

HOURS = ("hour", "hours", "heure", "heures", "hr")
# Names by which a part is recognised, as those of columns.NAMES. "min" is not among them: it is a minimum as often.
PARTS: dict[str, tuple[str, ...]] = {
    "year": ("year", "annee", "an"),
    "month": ("month", "mois"),
    "day": ("day", "jour"),
    "hour": HOURS,
    "minute": ("minute",),
    "second": ("second", "seconde"),
}
DAY_AND_TIME = ("date", "time")  # the other way of cutting a date in parts
CLOCK = re.compile(r"\d{1,2}([:.]\d{2}){1,2}")  # 7:30, 18.00.00
BY_PARTS = "data.columns.year=NAME data.columns.month=NAME ..."
WAY_OUT = f"data.columns.date=NAME (and data.columns.time=NAME, if hours stand apart), or the columns of its parts: {BY_PARTS}"
DATE = Roles(("date",), ways={"date": WAY_OUT})
BEGINNING = [0, 1, 1, 0, 0, 0]  # of a year, where the month and what follows are not given
FIRST_YEAR = 1000  # 24 may be 1924 or 2024


def find_date(reader: Reader, config: DataConfig) -> DateColumns:
    """The columns that dates come from: those asked for, or recognised by their names where there is one way to read them."""
    columns, path = reader.columns, reader.path
    parts = _parts(columns, config)
    if any(config.column(part) for part in PARTS):
        if asked := [role for role in DAY_AND_TIME if config.column(role)]:
            raise DataError(f"data.columns names both a {asked[0]} and parts of a date (year, month ...); name one of them", file=path)
        if problem := parts_problem(parts):
            raise DataError(f"{problem}; name its column: {BY_PARTS}", file=path)
        return parts
    if config.column("time"):
        days = [column for column in columns if column != config.column("time")]
        return find_columns(days, path, config, DATE) | {"time": str(config.column("time"))}
    if pair := _day_and_time(reader, config):
        return pair
    others = [column for column in columns if bare(column) in NAMES["date"] and column not in parts.values()]
    if config.column("date") or others or not parts or parts_problem(parts):
        return find_columns(columns, path, config, DATE)["date"]
    return parts if len(parts) > 1 else parts["year"]


def _day_and_time(reader: Reader, config: DataConfig) -> dict[str, str] | None:
    """A column of days beside one of hours, by their names and their first rows; none where dates have their hour, or each day one row."""
    times = [column for column in reader.columns if bare(column) in ("time", *HOURS)]
    days = [column for column in reader.columns if bare(column) in NAMES["date"] and column not in times]
    if config.column("date"):
        days = [column for column in days if column == config.column("date")]
    if len(days) != 1 or len(times) != 1:
        return None
    first = [[_text(cell) for cell in cells] for cells in first_cells(reader.path, [*days, *times])]
    whole_hours = bare(times[0]) in HOURS
    apart = all(":" not in _day(day) and (CLOCK.fullmatch(time) or (whole_hours and re.fullmatch(r"\d{1,2}", time))) for day, time in first)
    again = len({day for day, _ in first}) < len(first)  # or else it is an hour that each day has one of
    return {"date": days[0], "time": times[0]} if apart and again else None


def _parts(columns: Sequence[str], config: DataConfig) -> dict[str, str]:
    """The column of each part, from the year down; a part that two columns could be is none."""
    found = {}
    for part, names in PARTS.items():
        recognised = [column for column in columns if bare(column) in names]
        if column := config.column(part) or (recognised[0] if len(recognised) == 1 else None):
            found[part] = column
    return found


def parts_problem(parts: Mapping[str, str]) -> str | None:
    """Why these parts make no date, if so: one between the year and the last is missing, or is none that is known."""
    if set(parts) == set(DAY_AND_TIME):
        return None
    if unknown := [part for part in parts if part not in PARTS]:
        return f"{unknown[0]!r} is not a part of a date: parts are {', '.join(PARTS)}"
    needed = list(PARTS)[: max((list(PARTS).index(part) + 1 for part in parts), default=1)]
    missing = [part for part in needed if part not in parts]
    return f"a date with its {needed[-1]} needs its {missing[0]} too" if missing else None


def columns_of(date: DateColumns) -> list[str]:
    """The column, or those of the parts from the year, or the day, down."""
    return [date] if isinstance(date, str) else [date[part] for part in (*PARTS, *DAY_AND_TIME) if part in date]


def describe_date(date: DateColumns, order: Sequence[str] = ()) -> str:
    """ "dates from column 'jour'", "date from columns 'jour', 'mois', 'an'" as they stand in the file."""
    if isinstance(date, str):
        return f"dates from column {date!r}"
    return f"date from columns {', '.join(map(repr, sorted(date.values(), key=list(order).index)))}"


def join_parts(date: Mapping[str, str], cells: Sequence[Any]) -> datetime | str:
    """The date that the cells of `columns_of(date)` make, or a day and its time in one text; ValueError where they make none."""
    columns = columns_of(date)
    if "time" in date:
        return " ".join(_present(part, column, cell) for part, column, cell in zip(DAY_AND_TIME, columns, cells, strict=True))
    numbers = [_parse_whole(part, column, cell) for part, column, cell in zip(PARTS, columns, cells, strict=False)]
    year, month, day, hour, minute, second = numbers + BEGINNING[len(numbers) :]
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        said = ", ".join(f"{column} {number}" for column, number in zip(columns, numbers, strict=True))
        raise ValueError(f"{said} is not a date; correct it") from None


def _parse_whole(part: str, column: str, cell: Any) -> int:
    text = _text(cell)
    if part == "month" and (named := MONTH.get(bare(text))):
        return named
    if not re.fullmatch(r"\d{1,6}(\.0)?", text):  # numbers with empty cells among them are saved with decimals
        way_out = "where dates stand in one column, name it: data.columns.date=NAME"
        raise ValueError(f"{column}: {f'{text[:40]!r} is no {part} in digits' if text else f'the {part} is missing'}; {way_out}")
    number = int(text.removesuffix(".0"))
    if part == "year" and number < FIRST_YEAR:
        raise ValueError(f"{column}: {number} is not a year of four digits; write it in full")
    return number


def _present(part: str, column: str, cell: Any) -> str:
    """A day without the midnight that a table of dates adds to it, or a time whose hour has two digits."""
    text = _text(cell)
    if not text:
        raise ValueError(f"{column}: the {part} is missing")
    return _day(text) if part == "date" else re.sub(r"^\d(?!\d)", r"0\g<0>", text.removesuffix(".0"))


def _day(text: str) -> str:
    return re.sub(r"[T ]00:00(:00)?$", "", text)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()
