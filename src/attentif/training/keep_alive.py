"""Show what is being done, and for how long, while nothing else is shown."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from attentif.training.progress import SILENCE, Display, Status

EVERY = 1.0  # seconds between two looks at the clock once nothing was shown for a while; a log writes fewer lines


class Watched:
    """A display that notes what was shown last, and when."""

    def __init__(self, display: Display, doing: str) -> None:
        self.display = display
        self._note(doing)

    def _note(self, doing: str) -> None:
        now = time.monotonic()
        if doing != getattr(self, "doing", None):
            self.doing, self.begun = doing, now
        self.due = now + SILENCE

    def tick(self) -> None:
        """Show what is being done if nothing was shown for a while."""
        if (now := time.monotonic()) >= self.due:
            self.due = now + EVERY
            self.display.wait(self.doing[:100], now - self.begun)

    def say(self, line: str) -> None:
        self._note(line)
        self.display.say(line)

    def show(self, status: Status) -> None:
        self._note("train")
        self.display.show(status)

    def work(self, what: str, done: int, total: int) -> None:
        self._note(what)
        self.display.work(what, done, total)

    def wait(self, doing: str, seconds: float) -> None:
        self._note(doing)
        self.display.wait(doing, seconds)

    def close(self) -> None:
        self.display.close()


@contextmanager
def keep_alive(display: Display, doing: str) -> Iterator[Display]:
    """The display; while nothing else is shown, it shows what is being done: at first `doing`, then what it was told last."""
    watched, over = Watched(display, doing), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            watched.tick()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join()
