"""Every recipe by its name, at the smallest size that still trains: stopped after a step, and resumed to the report.

A new recipe is tried here without being listed, unless it brings no data.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from terminal import typed
from toy import Words

from attentif.api import start
from attentif.config import override
from attentif.data.builtin import BUILTIN, Splits
from attentif.recipes import recipe_layer, recipe_names
from attentif.training.signals import StoppedError

pytestmark = pytest.mark.system

# Trained on files by the tests of their tasks: test_finetuning_commands, test_image_commands, test_speech, test_text_tasks, test_regress.
WITHOUT_DATA = ["camembert-allocine", "mnist", "regress", "speech", "translate"]
SHORT = ["train.steps=2", "train.epochs=0", "train.min_steps=0", "train.eval_every=2", "train.threads=1"]
ROWS = {"train": 48, "valid": 6, "test": 6}  # every class is met in training
HOURS = {"train": 1000}  # of a series, which is then cut by time: between the beginnings of its splits, hours would be missing
LETTERS = 2000  # of a document


@pytest.fixture(scope="module")
def short_sets() -> Iterator[None]:
    """The built-in sets with a few rows of each split: scores and baselines would take longer than two steps.

    Each is made once: several recipes share a set, and a run that goes on reads it again.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, entry in BUILTIN.items():
            load = shortened(entry.load, HOURS if "date" in entry.roles else ROWS)
            patch.setitem(BUILTIN, name, replace(entry, load=cache(load)))
        yield


def shortened(load: Callable[..., Splits], rows: dict[str, int]) -> Callable[..., Splits]:
    def some(role: str, values: list[Any], count: int) -> list[Any]:
        return [value[:LETTERS] if role == "text" else value for value in values[:count]]

    return lambda *given: {
        split: {role: some(role, values, rows[split]) for role, values in columns.items()}
        for split, columns in load(*given).items()
        if split in rows
    }


@pytest.mark.parametrize("name", [name for name in recipe_names() if name not in WITHOUT_DATA])
@pytest.mark.usefixtures("short_sets")
def test_every_recipe_trains_goes_on_where_it_was_stopped_and_reports(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    if "fit" in recipe_layer(name).values:
        done = typed("train", name, "--out", str(run))
    else:
        with pytest.raises(StoppedError):
            start(name, [override(word) for word in SHORT], out=run, watch=Words(stop_at=1))
        done = typed("train", "--resume", str(run))
    assert done.code == 0, done.err
    assert "this run" in done.out
    assert (run / "report.html").exists()


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_recipes_without_data_say_what_to_bring(name: str) -> None:
    done = typed("train", name)
    assert done.code == 2
    assert "brings no data" in done.err or "name what to begin with" in done.err
