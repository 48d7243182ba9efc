"""Labelled signals: one row each, as a table has them.

In CSV and TSV every column of numbers is a sample, in the order of the columns (a short signal leaves its last cells empty); in JSONL and
Parquet one column holds a list, of numbers or of lists of numbers, a number for each channel. Read, a signal is a text that says the same
everywhere, "0.1 0.2 0.3", or "0.1,5 0.2,4 0.3,4" of two channels: a table, a command and an example of the report all hold it so.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.columns import NAMES, Roles, bare, find_columns
from attentif.data.config import DataConfig, Split
from attentif.data.numeric import is_number, number_of
from attentif.data.readers import PlainText, Row, Tolerance, cell_text, first_cells, open_reader
from attentif.errors import DataError

SIGNAL = Roles(("signal", "label"))
Floats32 = NDArray[np.float32]


def open_signals(
    config: DataConfig,
    split: Split,  # noqa: ARG001 - all readers of rows are called alike
    file: Path,
    roles: Roles,
    tolerance: Tolerance,
    notes: list[str],
) -> tuple[list[str], Iterator[Row]]:
    """The rows of a file as (signal, label), or as the roles that are asked for."""
    reader = open_reader(file, tolerance)
    if isinstance(reader, PlainText):
        raise DataError("is plain text; signals are rows of a CSV, TSV, JSONL or Parquet file", file=file)
    named = find_columns(reader.columns, file, config, Roles(tuple(role for role in roles.required if role != "signal")))
    asked = config.column("signal")
    free = [name for name in reader.columns if name and name not in named.values()]
    listed = [asked] if asked else [name for name in free if bare(name) in NAMES["signal"]]
    if listed and listed[0] not in reader.columns:
        raise DataError(f"no column is called {listed[0]!r} (asked for as signal)", file=file)
    columns = listed[:1] or _numeric(file, free, roles.way("signal"))
    said = (
        f"signals from column {columns[0]!r}"
        if listed
        else f"signals of up to {len(columns):,} samples, columns {columns[0]!r} to {columns[-1]!r}"
    )
    notes.append(f"{reader.about}: {said}" + "".join(f", {role} from column {name!r}" for role, name in named.items()))

    def rows() -> Iterator[Row]:
        for line, cells in reader.cells([*columns, *named.values()]):
            try:
                text = write_signal(_steps(cells[0], columns[0]) if listed else _samples(cells[: len(columns)], columns))
            except ValueError as error:
                tolerance.bad(str(error), file, line)
                continue
            beside = [cell_text(cell, name) for name, cell in zip(named.values(), cells[len(columns) :], strict=True)]
            if problem := next((problem for _, problem in beside if problem), None):
                tolerance.bad(problem, file, line)
                continue
            yield line, [text, *(words for words, _ in beside)]

    return ["signal", *named], rows()


def _numeric(file: Path, free: Sequence[str], way: str) -> list[str]:
    """The columns of numbers, in the file's order."""
    first = first_cells(file, list(free))
    found = [name for place, name in enumerate(free) if any(is_number(cells[place]) for cells in first)]
    if not found:
        raise DataError(f"has no column of numbers for a signal, and none that is called signal; name it: {way}", file=file)
    return found


def _samples(cells: Sequence[Any], columns: Sequence[str]) -> list[list[float]]:
    """The cells of a row; those missing at its end make it shorter."""
    values = [number_of(column, cell) for column, cell in zip(columns, cells, strict=True)]
    while values and np.isnan(values[-1]):
        values.pop()
    for column, value in zip(columns, values, strict=False):
        if np.isnan(value):
            raise ValueError(f"{column}: is missing inside the signal")
    return [[value] for value in values]


def _steps(cell: Any, column: str) -> list[list[float]]:
    """A list of numbers, a list of lists, or a text of numbers."""
    if isinstance(cell, str):
        return parse_signal(cell).tolist()
    if not isinstance(cell, list | tuple):
        raise ValueError(f"{column}: holds {type(cell).__name__} where a list of numbers is expected")
    steps = [[number_of(column, one) for one in (step if isinstance(step, list | tuple) else [step])] for step in cell]
    if len({len(step) for step in steps}) > 1:
        raise ValueError(f"{column}: its steps have different numbers of channels")
    if any(np.isnan(value) for step in steps for value in step):
        raise ValueError(f"{column}: a number is missing inside the signal")
    return steps


def write_signal(steps: Sequence[Sequence[float]]) -> str:
    return " ".join(",".join(f"{value:.9g}" for value in step) for step in steps)


def parse_signal(text: str) -> Floats32:
    """(steps, channels) of "0.1 0.2", or of "0.1,5 0.2,4"; ValueError says what is wrong."""
    steps = [step.split(",") for step in text.split()]
    if not steps:
        raise ValueError("the signal is empty")
    if len({len(step) for step in steps}) > 1:
        raise ValueError("the signal's steps have different numbers of channels: 0.1,5 0.2,4 has two, 0.1 0.2 one")
    try:
        values = np.array(steps, dtype=np.float32)
    except ValueError:
        bad = next(value for step in steps for value in step if not is_number(value))
        raise ValueError(f"{bad[:40]!r} is not a number: a signal is written 0.1 0.2 0.3") from None
    if not np.isfinite(values).all():
        raise ValueError("the signal holds numbers that are not finite")
    return values
