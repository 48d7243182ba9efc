"""`attentif profile` as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attentif.cli.main import run as attentif

pytestmark = pytest.mark.system
SMALL = ["--lengths", "8:32", "--width", "16", "--repeats", "2"]


def test_a_table_the_words_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "profile.html"
    assert attentif(["profile", "attention", "encoder-tiny", *SMALL, "--out", str(report)]) == 0
    said = capsys.readouterr().out
    assert "Training (forward and backward): time" in said
    assert "left out: encoder-tiny, decoding, from 8 tokens on: it looks both ways and does not write" in said
    assert f"report  {report}" in said
    assert "Apprentissage" in report.read_text(encoding="utf-8")


def test_json_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = '{name = "wide", kind = "attention", heads = 2, pattern = [{kind = "window", left = 4}]}'
    out = tmp_path / "profile.json"
    assert attentif(["profile", "lstm", table, *SMALL, "--json", "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["subjects"]) == {"lstm", "wide"}
    assert {point["phase"] for point in printed["points"]} == {"forward", "training", "decoding"}
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert kept["points"] == printed["points"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mambo"], "did you mean 'mamba'?"),
        (["mamba", "--lengths", "32:8"], "the shorter one stands first"),
        (["mamba", "--out", "profile.pdf"], "the report is .html or .json"),
        (["mamba", "--out", "nowhere/at/all.html"], "there is no folder"),
        (["attention", "--width", "30"], "width = 30 is not a multiple of heads"),
        (["mamba", "mamba", *SMALL], "named twice"),
        (["mamba", "--limit", "0"], "greater than or equal to 0.001"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attentif(["profile", *words]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.count("\n") == 1
    assert heard.err.startswith("error: ")
    assert said in heard.err


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder.html"
    folder.mkdir()
    assert attentif(["profile", "mamba", "--out", str(folder)]) == 2
    assert "folder.html: is a folder" in capsys.readouterr().err
    kept = tmp_path / "kept.html"
    kept.write_text("mine")
    assert attentif(["profile", "mamba", "--out", str(kept)]) == 2
    assert "kept.html: exists; overwrite it with --force" in capsys.readouterr().err
    assert kept.read_text() == "mine"


def test_stopped_by_the_keyboard_it_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "profile.html"
    command = [
        sys.executable,
        "-m",
        "attentif",
        "profile",
        "attention",
        "lstm",
        "--lengths",
        "512:16384",
        "--repeats",
        "50",
        "--out",
        str(out),
    ]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True)
    assert running.stderr is not None
    line = running.stderr.readline()  # what will be measured
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=120)
    assert line.startswith("measuring attention, lstm")
    assert running.returncode == 130, line + rest
    assert rest.strip().endswith("interrupted")
    assert list(tmp_path.iterdir()) == []
