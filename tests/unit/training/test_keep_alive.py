import io
import re
import time
from typing import Any

import pytest

from attentif.training.keep_alive import keep_alive
from attentif.training.progress import Lines, Silent


class Kept(Silent):
    """A display that keeps what it is shown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.waited: list[str] = []
        self.worked: list[tuple[str, int, int]] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def wait(self, doing: str, seconds: float) -> None:
        self.waited.append(doing)

    def work(self, what: str, done: int, total: int) -> None:
        self.worked.append((what, done, total))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attentif.training.keep_alive.SILENCE", 0.1)
    monkeypatch.setattr("attentif.training.keep_alive.EVERY", 0.1)


def wait_for(filled: list[Any]) -> None:
    until = time.monotonic() + 30
    while not filled and time.monotonic() < until:
        time.sleep(0.02)


def test_what_takes_long_without_a_word_says_what_it_is_doing(impatient: None) -> None:
    kept = Kept()
    with keep_alive(kept, "counting rows") as watch:
        wait_for(kept.waited)
        assert set(kept.waited) == {"counting rows"}
        watch.say("fitting")
        kept.waited.clear()
        wait_for(kept.waited)
        assert kept.waited[-1] == "fitting"
        watch.work("predict", 0, 9)
        kept.waited.clear()
        wait_for(kept.waited)
    assert kept.waited[-1] == "predict"
    assert (kept.said, kept.worked) == (["fitting"], [("predict", 0, 9)])
    many = len(kept.waited)
    time.sleep(0.3)
    assert len(kept.waited) == many


def test_lines_of_a_log_come_ever_less_often() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.work("predict", 1, 4)
    for tenth in range(18, 3000):
        lines.wait("predict", tenth / 10)
    assert re.findall(r"\d+(?= s)", stream.getvalue()) == ["2", "4", "7", "14", "29", "58", "115", "175", "235", "295"]
    assert stream.getvalue().startswith("predict 25% ... 2 s\n")
    lines.wait("fitting", 1.9)
    assert stream.getvalue().endswith("fitting ... 2 s\n")
