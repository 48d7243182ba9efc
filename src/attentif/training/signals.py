"""Ctrl-C and SIGTERM: finish the step, save, exit. A second signal exits at once; files are complete at any moment."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from attentif.errors import AttentifError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_PRESS = 0.5  # seconds: the terminal and torchrun both pass on one Ctrl-C


@contextmanager
def ignore_sigterm() -> Iterator[None]:
    """Ignore SIGTERM in the last seconds of a process that ends anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class StoppedError(AttentifError):
    """The run was stopped by a signal after saving, and can be resumed."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interrupts:
    """Context in which `number` is the signal that asked the run to stop, or 0."""

    def __init__(self) -> None:
        self.number = 0
        self.since = 0.0
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python refuses handlers, and the main thread decides
            self.before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.number:
            self.number, self.since = number, time.monotonic()
        elif time.monotonic() - self.since > SAME_PRESS:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
