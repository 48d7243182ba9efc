"""`attentif lab` as it is typed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attentif.cli.main import run
from attentif.lab.experiments import EXPERIMENTS


def test_the_list_has_every_experiment_with_its_last_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "l5", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("L5  holds: ")
    assert (tmp_path / "L5.html").is_file()
    assert run(["lab", "--json", "--out", str(tmp_path)]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(EXPERIMENTS)
    assert listed["L5"]["verdict"] == "holds"
    assert listed["L4"]["verdict"] == ""
    assert run(["lab", "book", "--out", str(tmp_path)]) == 0
    assert "The course, measured" in (tmp_path / "book.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["L99"], "there is no experiment 'L99'"),
        (["all", "L4"], "stand alone"),
        (["book"], "nothing has been measured here yet"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", *words, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.kill
def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "attentif", "lab", "L1", "--full", "--out", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("L1: ")
        process.send_signal(signal.SIGINT)
        assert "stopped during L1" in process.stderr.read()
        assert process.wait(60) == 130
    assert not list(tmp_path.iterdir())
