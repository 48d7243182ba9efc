"""What files and models wrote reaches a terminal without characters that drive it."""

import io
import sys
import time

import pytest

from attentif.cli.out import print_table, print_text, say, show_progress
from attentif.lab.compare.board import PlainBoard
from attentif.training.progress import Lines

UNSAFE = "\x1b]0;owned\x07"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_and_tables_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"label {UNSAFE}")
    Lines().say(f"label {UNSAFE}")
    PlainBoard(sys.stderr).say(f"label {UNSAFE}")
    print_table(["text"], [[UNSAFE]])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert err.count("\\x1b]0;owned\\x07") == 3
    assert "\\x1b]0;owned" in out


def test_texts_of_models_are_escaped_on_a_terminal_and_kept_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(UNSAFE, end="")
    assert capsys.readouterr().out == UNSAFE
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_text(f"été{UNSAFE}")
    assert terminal.getvalue() == "été\\x1b]0;owned\\x07\n"


def test_a_log_is_told_what_takes_long(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attentif.training.keep_alive.SILENCE", 0.1)
    monkeypatch.setattr("attentif.training.progress.SILENCE", 0.1)
    err, until = "", time.monotonic() + 30
    with show_progress("counting rows"):
        while not err and time.monotonic() < until:
            time.sleep(0.02)
            err = capsys.readouterr().err
    assert err.startswith("counting rows ... 0 s\n")
    with show_progress("counting rows", machine=True):
        time.sleep(0.4)
    assert capsys.readouterr().err == ""
