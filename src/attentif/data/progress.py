"""Progress messages every few seconds."""

import time
from collections.abc import Callable

EVERY = 2.0  # seconds
Say = Callable[[str], None]


class Pulse:
    """Print a line every few seconds; short tasks print nothing."""

    def __init__(self, say: Say | None) -> None:
        self.say, self.last = say, time.monotonic()

    def __call__(self, words: Callable[[], str]) -> None:
        if self.say is not None and time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.say(words())
