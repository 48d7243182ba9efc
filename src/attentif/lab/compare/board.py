"""Progress display of parallel runs: a bar for each on a terminal, occasional lines elsewhere."""

import sys
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from attentif.errors import escape_unsafe

EVERY = 20.0  # seconds between plain lines about one run


class Board(Protocol):
    def say(self, line: str) -> None:
        """One line that stays."""

    def move(self, label: str, done: int, total: int, words: str) -> None:
        """Update the progress of one run."""

    def leave(self, label: str) -> None:
        """Remove a finished run."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class SilentBoard:
    def say(self, line: str) -> None: ...

    def move(self, label: str, done: int, total: int, words: str) -> None: ...

    def leave(self, label: str) -> None: ...

    def close(self) -> None: ...


class PlainBoard:
    """For logs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.last: dict[str, float] = {}

    def say(self, line: str) -> None:
        print(escape_unsafe(line), file=self.stream, flush=True)

    def move(self, label: str, done: int, total: int, words: str) -> None:
        now = time.monotonic()
        if now - self.last.setdefault(label, now) >= EVERY:
            self.last[label] = now
            self.say(f"{label}: {done}/{total} {words}")

    def leave(self, label: str) -> None:
        self.last.pop(label, None)

    def close(self) -> None: ...


class BarBoard:
    """For a terminal: a bar per running run, below the messages."""

    def __init__(self, stream: TextIO) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"),
        )
        self.progress = Progress(*columns, console=Console(file=stream, highlight=False), transient=True)
        self.lines: dict[str, TaskID] = {}
        self.started = False

    def say(self, line: str) -> None:
        self.progress.console.print(escape_unsafe(line), markup=False, soft_wrap=True)

    def move(self, label: str, done: int, total: int, words: str) -> None:
        if not self.started:
            self.progress.start()
            self.started = True
        if label not in self.lines:
            self.lines[label] = self.progress.add_task(label, total=total, words=words)
        self.progress.update(self.lines[label], completed=done, total=total, words=words)

    def leave(self, label: str) -> None:
        if label in self.lines:
            self.progress.remove_task(self.lines.pop(label))

    def close(self) -> None:
        if self.started:
            self.progress.stop()
            self.started = False


def board(*, machine: bool = False, stream: TextIO | None = None) -> Board:
    """The display for this environment: bars, plain lines, or none for `--json`."""
    if machine:
        return SilentBoard()
    target = stream or sys.stderr
    return BarBoard(target) if target.isatty() else PlainBoard(target)
