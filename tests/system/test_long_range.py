"""The recipes of the long-range suite, as typed, at a reduced size: each trains, is scored, and writes its report."""

import json
from pathlib import Path

import pytest

import attentif
from attentif.cli.main import run

pytestmark = pytest.mark.system

SMALL = ["data.options.train=60", "data.options.valid=10", "data.options.test=20", "model.width=16", "model.layers=1", "train.epochs=1"]


@pytest.mark.parametrize("recipe", ["copying", "selective-copying", "recall", "induction", "sorting", "parity", "listops", "needle"])
def test_each_recipe_trains(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", recipe, *SMALL, "--out", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["scores"]["accuracy"] <= 1
    assert (tmp_path / "run" / "report.html").is_file()


def test_options_that_cannot_be_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "recall", "data.options.pairs=99", "--out", str(tmp_path / "run")]) == 2
    assert "99 pairs need as many keys, and there are 16 (keys)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "longer"),
    [
        ("listops", ["data.options.arguments=10", "data.options.shortest=300", "data.options.longest=900", "data.options.depth=8"]),
        ("needle", ["data.options.sentences=60"]),
    ],
)
def test_rows_are_as_long_as_they_are_asked_for(recipe: str, longer: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of a row that is cut to the usual length of texts nobody could know the answer."""
    assert run(["train", recipe, *SMALL, *longer, "--dry-run"]) == 0
    assert "cut to" not in capsys.readouterr().err


def test_a_run_answers_a_text_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "recall", *SMALL, "--out", str(tmp_path / "run"), "--json"]) == 0
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "run"), "k1 v2 k3 v4 k3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)[0]["output"].split()) == 5


def test_a_run_is_scored_on_longer_rows_than_it_was_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert run(["train", "induction", *SMALL, "data.options.length=8", "--out", folder, "--json"]) == 0
    capsys.readouterr()
    assert run(["evaluate", folder, "data.options.length=40", "data.options.test=30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 30
    longer = attentif.load(folder, data={"options": {"length": 40, "test": 30}})
    assert longer.evaluate().examples == 30
