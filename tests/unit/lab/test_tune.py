"""Settings are searched within a budget, judged on validation, and the best is scored on the test."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_reviews import ROWS, SMALL
from typer.testing import CliRunner

from attentif.cli.main import app
from attentif.errors import DataError, UsageError
from attentif.lab.tune import Tuning, draw_settings, tune
from attentif.training.load import load_config
from attentif.training.progress import Silent
from attentif.training.rundir import RunFolder

DATA = {"text": "avis", "label": "sentiment"}


@pytest.fixture
def search(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    table = pd.DataFrame(ROWS)
    return lambda **options: tune(SMALL, {"train": table, **DATA}, out=tmp_path / "tune", watch=Silent(), **options)


def test_the_best_trial_on_validation_is_scored_on_the_test_and_no_other(search: Any) -> None:
    found = search(choices={"train.lr": [1e-3, 3e-2]}, trials=3)
    assert found.trials[0].settings == {}  # the recipe as it is
    assert {trial.settings["train.lr"] for trial in found.trials[1:]} == {1e-3, 3e-2}
    assert found.trials[found.best].valid["loss"] == min(trial.valid["loss"] for trial in found.trials)
    assert [RunFolder(Path(trial.run)).finished for trial in found.trials] == [n == found.best for n in range(3)]
    assert found.test["accuracy"] == json.loads((found.run / "results.json").read_text())["scores"]["accuracy"]
    kept = json.loads((found.run.parent / "tune.json").read_text())
    assert len(kept["trials"]) == 3
    assert "<table" in found._repr_html_()
    assert (found.run.parent / "tune.html").is_file()


def test_an_interrupted_search_keeps_what_is_done_and_another_search_is_refused(search: Any) -> None:
    first = search(choices={"train.lr": [1e-3, 3e-2]}, trials=2)
    again = search(choices={"train.lr": [1e-3, 3e-2]}, trials=3)
    assert again.trials[:2] == first.trials
    with pytest.raises(UsageError) as error:
        search(choices={"train.lr": [5.0]}, trials=2)
    assert error.value.code == "tune"


def test_no_trial_begins_after_the_minutes_are_over(search: Any) -> None:
    found: Tuning = search(trials=4, minutes=0)
    assert (len(found.trials), found.ended) == (1, "minutes")


def test_settings_that_cannot_work_are_a_trial_that_failed(search: Any) -> None:
    found = search(choices={"model.width": [15]}, trials=2)  # two heads do not divide it
    assert found.best == 0
    assert found.trials[1].failed


def test_usual_settings_are_drawn_around_the_recipe() -> None:
    config = load_config("classify", [])
    drawn = draw_settings(config, 8, None, 0)
    assert drawn[0] == {}
    assert len({str(own) for own in drawn}) == 8
    assert all(config.train.lr / 5.1 <= own["train.lr"] <= config.train.lr * 5.1 for own in drawn[1:])
    assert draw_settings(config, 8, None, 0) == drawn


def test_the_command_refuses_a_choice_without_a_table() -> None:
    found = CliRunner().invoke(app, ["tune", "classify", "--try", "lr=1,2"])
    assert isinstance(found.exception, UsageError)
    assert found.exception.code == "tune"


def test_a_search_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match="empty"):
        tune(SMALL, tmp_path / "empty.csv", out=tmp_path / "tune", watch=Silent())
    assert not (tmp_path / "tune").exists()
