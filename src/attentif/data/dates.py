"""The date of a row: one column of dates, or a column for each of its parts, from the year down: year and month, or with the day ..."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attentif.data.columns import NAMES, Roles, bare, find_columns
from attentif.data.config import DataConfig
from attentif.errors import DataError

DateColumns = str | Mapping[str, str]  # the column of dates, or those of its parts: {"year": "an", "month": "mois"}

# Names by which a part is recognised, as those of columns.NAMES. "min" is not among them: it is a minimum as often.
PARTS: dict[str, tuple[str, ...]] = {
    "year": ("year", "annee", "an"),
    "month": ("month", "mois"),
    "day": ("day", "jour"),
    "hour": ("hour", "heure"),
    "minute": ("minute",),
    "second": ("second", "seconde"),
}
BY_PARTS = "data.columns.year=NAME data.columns.month=NAME ..."
WAY_OUT = f"data.columns.date=NAME, or the columns of its parts: {BY_PARTS}"
BEGINNING = [0, 1, 1, 0, 0, 0]  # of a year, where the month and what follows are not given
FIRST_YEAR = 1000  # 24 may be 1924 or 2024


def find_date(columns: Sequence[str], path: Path, config: DataConfig) -> DateColumns:
    """The columns that dates come from: those asked for, or recognised by their names where there is one way to read them."""
    parts = _parts(columns, config)
    if any(config.column(part) for part in PARTS):
        if config.column("date"):
            raise DataError("data.columns names both a date and its parts (year, month ...); name one of them", file=path)
        if problem := parts_problem(parts):
            raise DataError(f"{problem}; name its column: {BY_PARTS}", file=path)
        return parts
    others = [column for column in columns if bare(column) in NAMES["date"] and column not in parts.values()]
    if config.column("date") or others or not parts or parts_problem(parts):
        return find_columns(columns, path, config, Roles(("date",), ways={"date": WAY_OUT}))["date"]
    return parts if len(parts) > 1 else parts["year"]


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
    if unknown := [part for part in parts if part not in PARTS]:
        return f"{unknown[0]!r} is no part of a date: they are {', '.join(PARTS)}"
    needed = list(PARTS)[: max((list(PARTS).index(part) + 1 for part in parts), default=1)]
    missing = [part for part in needed if part not in parts]
    return f"a date with its {needed[-1]} needs its {missing[0]} too" if missing else None


def columns_of(date: DateColumns) -> list[str]:
    """The column, or those of the parts from the year down."""
    return [date] if isinstance(date, str) else [date[part] for part in PARTS if part in date]


def described(date: DateColumns, order: Sequence[str] = ()) -> str:
    """ "dates from column 'jour'", "date from columns 'jour', 'mois', 'an'" as they stand in the file."""
    if isinstance(date, str):
        return f"dates from column {date!r}"
    return f"date from columns {', '.join(map(repr, sorted(date.values(), key=list(order).index)))}"


def joined(date: Mapping[str, str], cells: Sequence[Any]) -> datetime:
    """The date that the cells of `columns_of(date)` make; ValueError where they make none."""
    columns = columns_of(date)
    numbers = [_whole(part, column, cell) for part, column, cell in zip(PARTS, columns, cells, strict=False)]
    year, month, day, hour, minute, second = numbers + BEGINNING[len(numbers) :]
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        said = ", ".join(f"{column} {number}" for column, number in zip(columns, numbers, strict=True))
        raise ValueError(f"{said} is no date; correct it") from None


def _whole(part: str, column: str, cell: Any) -> int:
    text = "" if cell is None else str(cell).strip()
    if not re.fullmatch(r"\d{1,6}(\.0)?", text):  # numbers with empty cells among them are saved with decimals
        way_out = "where dates stand in one column, name it: data.columns.date=NAME"
        raise ValueError(f"{column}: {f'{text[:40]!r} is no {part} in digits' if text else f'the {part} is missing'}; {way_out}")
    number = int(text.removesuffix(".0"))
    if part == "year" and number < FIRST_YEAR:
        raise ValueError(f"{column}: {number} is no year of four digits; write it in full")
    return number
