"""What the user sees while a run goes on: one line that moves on a terminal, a plain line now and then elsewhere, nothing for machines."""

import sys
import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

EVERY = 10.0  # seconds between plain lines


@dataclass(frozen=True, slots=True)
class Status:
    """Where the run stands after a step."""

    step: int
    total: int  # steps of the whole run, as far as can be told
    loss: float
    tokens_per_second: float
    padding: float  # share of the batch's places that hold no token
    left: float  # seconds

    def words(self) -> str:
        rate = f"{self.tokens_per_second:,.0f} tokens/s".replace(",", " ")
        return f"loss {self.loss:.4f} · {rate} · padding {self.padding:.1%} · {clock(self.left)} left"


def clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class Display(Protocol):
    """Where a run's words go."""

    def say(self, line: str) -> None:
        """One line that stays."""

    def show(self, status: Status) -> None:
        """After each step."""

    def work(self, what: str, done: int, total: int) -> None:
        """During evaluation."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Silent:
    def say(self, line: str) -> None: ...

    def show(self, status: Status) -> None: ...

    def work(self, what: str, done: int, total: int) -> None: ...

    def close(self) -> None: ...


class Lines:
    """For logs: a line of status every few seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.last = time.monotonic()

    def say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)

    def show(self, status: Status) -> None:
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.say(f"step {status.step}/{status.total} · {status.words()}")

    def work(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.say(f"{what} {done / max(total, 1):.0%}")

    def close(self) -> None: ...


class Bar:
    """For a terminal: a line that moves, below those that stay."""

    def __init__(self, stream: TextIO | None = None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"))
        self.progress = Progress(*columns, console=Console(file=stream or sys.stderr, highlight=False), transient=True)
        self.line = self.progress.add_task("train", total=None, words="", visible=False)
        self.started = False

    def say(self, line: str) -> None:
        self.progress.console.print(line, markup=False, soft_wrap=True)

    def show(self, status: Status) -> None:
        self._move("train", status.step, status.total, status.words())

    def work(self, what: str, done: int, total: int) -> None:
        self._move(what, done, total, "")

    def _move(self, what: str, done: int, total: int, words: str) -> None:
        if not self.started:
            self.progress.start()
            self.started = True
        self.progress.update(self.line, description=what, completed=done, total=total, words=words, visible=True)

    def close(self) -> None:
        if self.started:
            self.progress.stop()
            self.started = False


def display(*, machine: bool = False, stream: TextIO | None = None) -> Display:
    """What suits the place: nothing for `--json`, a moving line on a terminal, plain lines elsewhere."""
    if machine:
        return Silent()
    target = stream or sys.stderr
    return Bar(target) if target.isatty() else Lines(target)
