"""Rows of a file to predict, one by one, each with the columns to copy to the output."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attentif.config import did_you_mean
from attentif.data.answer_file import SkippedRow
from attentif.data.readers import PlainText, Reader, Tolerance, cell_text, open_reader
from attentif.errors import DataError, UsageError

EMPTY = "the text is empty: there is nothing to read"


@dataclass(frozen=True, slots=True)
class AskedRow:
    """One row: where it stands, what is asked, what is kept."""

    line: int
    asked: str | Mapping[str, str]
    kept: dict[str, Any] = field(default_factory=dict)


class SkippingTolerance(Tolerance):
    """A tolerance that lists skipped rows, except those handled before an interruption."""

    def __init__(self, allowed: int, skipped: list[SkippedRow], after: int = 0) -> None:
        super().__init__(allowed)
        self.skipped, self.after = skipped, after
        self.count = len(skipped)

    def bad(self, reason: str, file: Path, line: int | None) -> None:
        if line is not None and line <= self.after:
            return
        try:
            super().bad(reason, file, line)
        except DataError as error:
            way_out = "" if self.allowed else "; --skip-bad N leaves out up to N such rows"
            raise DataError(error.message + way_out, file=file, line=line, code="bad-row") from None
        self.skipped.append(SkippedRow(line or 0, reason))


def choose_kept(columns: Sequence[str], keep: Sequence[str] | None, file: Path) -> list[str]:
    """The columns to keep: all, unless some were named; `[""]` names none."""
    if keep is None:
        return [name for name in columns if name]
    wanted = [name for name in keep if name]
    for name in wanted:
        if name not in columns:
            listed = f"; the columns are {', '.join(map(repr, columns[:20]))}" if columns else "; the file is plain text and has none"
            raise UsageError(f"--keep: no column is called {name!r}{did_you_mean(name, columns)}{listed}", file=file, code="no-column")
    return wanted


def iterate_rows(
    reader: Reader, roles: Mapping[str, str], kept: Sequence[str], *, after: int = 0, blank: bool = False
) -> Iterator[AskedRow]:
    """Rows after the line `after`; those that cannot be answered are left to the reader's tolerance. `blank`: an empty text can be."""
    plain = isinstance(reader, PlainText)
    wanted = [*dict.fromkeys([*roles.values(), *kept])]
    for line, cells in reader.cells(wanted):
        if line <= after:
            continue
        values = dict(zip(wanted, cells, strict=True))
        texts: dict[str, str] = {}
        problem: str | None = None
        for role, column in roles.items():
            texts[role], problem = cell_text(values[column], column)
            problem = problem or (None if blank or texts[role].strip() else EMPTY)
            if problem:
                reader.tolerance.bad(problem, reader.path, line)
                break
        else:
            yield AskedRow(line, next(iter(texts.values())) if plain else texts, {name: values[name] for name in kept})


def count_rows(path: Path) -> int:
    """Rows of a file, good or bad."""
    reader = open_reader(path, Tolerance(sys.maxsize))
    return sum(1 for _ in reader.cells(reader.columns[:1] or ["line"]))


def split_bad(
    rows: Sequence[AskedRow], answer: Callable[[Sequence[AskedRow]], list[Any]], tolerance: Tolerance, file: Path
) -> Iterator[tuple[AskedRow, Any]]:
    """Answer rows together; where that fails, by halves, down to the row that cannot be answered."""
    try:
        yield from zip(rows, answer(rows), strict=True)
    except (DataError, UsageError) as error:
        if error.file is not None and not tolerance.allowed:  # it names its place better than we could
            raise
        if len(rows) == 1:
            tolerance.bad(error.message, file, rows[0].line)
            return
        middle = len(rows) // 2
        yield from split_bad(rows[:middle], answer, tolerance, file)
        yield from split_bad(rows[middle:], answer, tolerance, file)
