"""Report what is being done when nothing was printed for a while before the first step."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE = 1.8  # seconds without a word after which the last line is said again, with the time it has taken
Say = Callable[[str], None]


@contextmanager
def keep_alive(say: Say, wait: Say, doing: str) -> Iterator[Say]:
    """A `say` that repeats the last line, at first `doing`, through `wait` every two seconds while nothing else is printed."""
    begun, last, over = time.monotonic(), time.monotonic(), threading.Event()

    def note(line: str) -> None:
        nonlocal doing, begun, last
        doing, begun, last = line, time.monotonic(), time.monotonic()
        say(line)

    def watch() -> None:
        nonlocal last
        while not over.wait(0.1):
            if time.monotonic() - last >= SILENCE:
                last = time.monotonic()
                wait(f"{doing[:100]} ... {last - begun:.0f} s")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        over.set()
        thread.join()
