"""Output: results to stdout, all else to stderr. rich is imported only for tables."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attentif.errors import UsageError, escape_unsafe
from attentif.french import choose_language, localize

if TYPE_CHECKING:
    from attentif.training.progress import Display
    from attentif.view.words import Words

WIDE = 160  # columns of a table that goes to a file or a pipe
PATIENCE = 1.5  # seconds of importing after which that is said
ROOMY = 120  # columns of a terminal from which a table of many columns is readable


def check_out(out: Path | None, force: bool) -> None:
    """Refuse, before anything is computed, a file that cannot or must not be written."""
    if out is None:
        return
    if out.is_dir():
        raise UsageError("is a folder; name a file in it", file=out)
    refuse_existing(out, force)
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", file=out)
    if not os.access(out.parent, os.W_OK):
        raise UsageError("cannot be written: no permission for its folder", file=out)


def refuse_existing(file: Path, force: bool) -> None:
    if file.exists() and not force:
        raise UsageError("exists; overwrite it with --force, or choose another name", file=file)


def say(line: str) -> None:
    """Print a line to stderr, in the user's language."""
    print(escape_unsafe(localize(line)), file=sys.stderr, flush=True)


def print_text(text: str, end: str = "\n") -> None:
    """Print what a model wrote to stdout: as it is to a file or a pipe, without control characters to a terminal."""
    print(escape_unsafe(text) if sys.stdout.isatty() else text, end=end, flush=True)


@contextmanager
def announce_loading() -> Iterator[None]:
    """On a terminal, a line about imports that take long: PyTorch's first one may read half a gigabyte."""
    timer = threading.Timer(PATIENCE, say, ["loading PyTorch ..."])
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def show_progress(doing: str, *, machine: bool = False) -> "Iterator[Display]":
    """The display of a command, which shows what is being done, at first `doing`, wherever that takes over two seconds."""
    from attentif.training.keep_alive import keep_alive
    from attentif.training.progress import display

    with closing(display(machine=machine)) as watch, keep_alive(watch, doing) as watched:
        yield watched


def translate(words: "Words") -> str:
    """The text in the user's language."""
    from attentif.view.words import say as in_words

    return in_words(words, choose_language())


def is_narrow() -> bool:
    """A terminal in which many columns would cut names and words to pieces."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < ROOMY


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", strong: int | None = None, headed: bool = True
) -> None:
    """Print a table; `strong` is the row to stress. Colours only on a terminal, and not where NO_COLOR is set."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        *columns, box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False, show_header=headed
    )
    for number, row in enumerate(rows):
        table.add_row(*(Text(escape_unsafe(cell)) for cell in row), style="bold" if number == strong else None)
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
