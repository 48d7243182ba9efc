"""Progress display: a bar on a terminal, one live cell in a notebook, occasional lines elsewhere, nothing for `--json`."""

import sys
import time
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from attentif.errors import escape_unsafe
from attentif.french import localize

EVERY = 10.0  # seconds between plain lines of training
SILENCE = 1.8  # seconds after which what comes before and after training is shown
RARELY = 60.0  # seconds between plain lines about something that takes long; at first each comes after twice the time of the last


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
    """Progress and messages of a run."""

    def say(self, line: str) -> None:
        """Print a line."""

    def show(self, status: Status) -> None:
        """Show the status after a step."""

    def work(self, what: str, done: int, total: int) -> None:
        """Show the progress of an evaluation."""

    def wait(self, doing: str, seconds: float) -> None:
        """Show what is being done, and for how long."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Silent:
    def say(self, line: str) -> None: ...

    def show(self, status: Status) -> None: ...

    def work(self, what: str, done: int, total: int) -> None: ...

    def wait(self, doing: str, seconds: float) -> None: ...

    def close(self) -> None: ...


class Lines:
    """Display for logs: a status line now and then."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.last = self.begun = time.monotonic()
        self.what = self.doing = ""
        self.due = 0.0

    def say(self, line: str) -> None:
        print(escape_unsafe(localize(line)), file=self.stream, flush=True)

    def show(self, status: Status) -> None:
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.say(f"step {status.step}/{status.total} · {status.words()}")

    def work(self, what: str, done: int, total: int) -> None:
        self._begin(what)
        self.doing = f"{what} {done / max(total, 1):.0%}"
        if self._is_due(time.monotonic() - self.begun):
            self.say(self.doing)

    def wait(self, doing: str, seconds: float) -> None:
        self._begin(doing)
        if self._is_due(seconds):
            self.say(f"{self.doing} ... {seconds:.0f} s")

    def _begin(self, what: str) -> None:
        if what != self.what:
            self.what = self.doing = what
            self.begun, self.due = time.monotonic(), SILENCE

    def _is_due(self, seconds: float) -> bool:
        """Whether a line is due after so many seconds of the same: 2, 4, 8 ..., then every minute."""
        if seconds < self.due:
            return False
        self.due = seconds + min(seconds, RARELY)
        return True

    def close(self) -> None: ...


class Live:
    """What a bar and a notebook share: one place that is drawn again and again."""

    def __init__(self) -> None:
        self.working, self.done, self.total = "", 0, 0

    def show(self, status: Status) -> None:
        self._move("train", status.step, status.total, status.words())

    def work(self, what: str, done: int, total: int) -> None:
        self.working, self.done, self.total = what, done, total
        self._move(what, done, total, "")

    def wait(self, doing: str, seconds: float) -> None:
        done, total = (self.done, self.total) if doing == self.working else (0, 0)
        self._move(f"{doing} ... {seconds:.0f} s", done, total, "")

    def _move(self, what: str, done: int, total: int, words: str) -> None:
        raise NotImplementedError


class Bar(Live):
    """Display for a terminal: a progress bar below the messages."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
        self.progress = Progress(*columns, console=Console(file=stream or sys.stderr, highlight=False), transient=True)
        self.line = self.progress.add_task("train", total=None, words="", visible=False)
        self.started = False

    def say(self, line: str) -> None:
        self.progress.console.print(escape_unsafe(localize(line)), markup=False, soft_wrap=True)

    def _move(self, what: str, done: int, total: int, words: str) -> None:
        if not self.started:
            self.progress.start()
            self.started = True
        words = f"{done}/{total} {localize(words)}" if total else ""
        self.progress.tasks[self.line].total = total or None  # a bar that runs to and fro where nothing is counted
        self.progress.update(self.line, description=localize(what), completed=done, words=words, visible=True)

    def close(self) -> None:
        if self.started:
            self.progress.stop()
            self.started = False


class Notebook(Live):
    """Display for a notebook: one cell output, rewritten in place."""

    LINES = 6  # of what was said, the last ones

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.bar = ""
        self.last = 0.0
        self.handle: Any = None

    def say(self, line: str) -> None:
        self.lines = [*self.lines, localize(line)][-self.LINES :]
        self._draw(force=True)

    def close(self) -> None:
        self.bar = ""
        self._draw(force=True)

    def _move(self, what: str, done: int, total: int, words: str) -> None:
        bar = f'<progress value="{done}" max="{max(total, 1)}" style="width: 20em"></progress>'
        self.bar = f"<div>{escape(localize(what))} {bar} {done:,}/{total:,} {escape(localize(words))}</div>"
        self._draw()

    def _draw(self, *, force: bool = False) -> None:
        from IPython.display import HTML, display

        if not force and time.monotonic() - self.last < 0.25:
            return
        self.last = time.monotonic()
        said = "".join(f"<div>{escape(line)}</div>" for line in self.lines)
        page = HTML(f'<div style="font-size: 90%; opacity: 0.8">{said}{self.bar}</div>')
        if self.handle is None:
            self.handle = display(page, display_id=True)
        else:
            self.handle.update(page)


def is_notebook() -> bool:
    """Whether this runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def display(*, machine: bool = False, stream: TextIO | None = None) -> Display:
    """The display for this environment: bar, notebook cell, plain lines, or none for `--json`."""
    if machine:
        return Silent()
    if stream is None and is_notebook():
        return Notebook()
    target = stream or sys.stderr
    return Bar(target) if target.isatty() else Lines(target)
