"""Where words go: results to stdout, all else to stderr. rich is imported when a table is wanted, not before."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attentif.errors import UsageError

WIDE = 160  # columns of a table that goes to a file or a pipe
ROOMY = 120  # columns of a terminal from which a table of many columns is readable


def check_out(out: Path | None, force: bool) -> None:
    """Before anything is computed: a file that could not be written, or must not be."""
    if out is None:
        return
    if out.is_dir():
        raise UsageError("is a folder; name a file in it", file=out)
    refuse_existing(out, force)
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", file=out)
    if not os.access(out.parent, os.W_OK):
        raise UsageError("cannot be written: its folder is closed to you", file=out)


def refuse_existing(file: Path, force: bool) -> None:
    if file.exists() and not force:
        raise UsageError("exists already; --force writes over it, another name keeps it", file=file)


def say(line: str) -> None:
    """One line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def is_narrow() -> bool:
    """A terminal in which many columns would cut names and words to pieces."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < ROOMY


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", strong: int | None = None) -> None:
    """A table on stdout; `strong` is the row to stress. Colours only on a terminal, and not where NO_COLOR is set."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for number, row in enumerate(rows):
        table.add_row(*(Text(cell) for cell in row), style="bold" if number == strong else None)
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
