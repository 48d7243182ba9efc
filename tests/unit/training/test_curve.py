"""Accuracy against the number of labels: runs that are made once, and a table of them."""

import json
import os
import signal

import pytest

from attentif.errors import DataError, UsageError
from attentif.training.curve import CurvePlan, measure, spread
from attentif.training.load import load_run_config
from attentif.training.progress import Silent
from attentif.training.signals import StoppedError
from attentif.view.curve import curve_page, curve_table
from attentif.view.figures.curve import Line, Score, label_curve
from attentif.view.words import say

FILMS = ["film", "récit", "acteur", "décor"]
SMALL = {"base": "encoder-tiny", "width": 16, "layers": 1, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
SETTINGS = {"steps": 2, "batch_tokens": 256, "eval_every": 2}


class Stops(Silent):
    """Presses Ctrl-C at the nth step that is shown."""

    def __init__(self, after=0):
        self.left, self.lines = after, []

    def say(self, line):
        self.lines.append(line)

    def show(self, status):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def recipe(tmp_path):
    rows = [f"{tone} {thing} {n},{label}" for n in range(12) for thing in FILMS for tone, label in (("bon", "pos"), ("triste", "neg"))]
    (tmp_path / "avis.csv").write_text("\n".join(["text,label", *rows]))
    return {
        "data": {"train": str(tmp_path / "avis.csv")},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "vocab": 60, "min_count": 1},
        "model": SMALL,
        "pretrain": {"task": {"kind": "masked", "context": 16, "share": 0.4}} | SETTINGS,
        "train": SETTINGS,
    }


def test_a_curve_that_was_stopped_goes_on_and_makes_no_run_twice(recipe, tmp_path):
    plan = CurvePlan(recipe, [], [], [20, 0], [0], tmp_path / "curve")
    with pytest.raises(StoppedError):
        measure(plan, Stops(after=5))  # in the first stage of the third run
    made = {path.name: path.stat().st_mtime_ns for path in plan.folder.glob("without-*/results.json")}
    curve = measure(plan, Stops())
    assert {path.name: path.stat().st_mtime_ns for path in plan.folder.glob("without-*/results.json")} == made
    names = sorted(path.name for path in plan.folder.iterdir() if path.is_dir())
    assert names == ["with-20-0", "with-all-0", "without-20-0", "without-all-0"]
    assert json.loads((plan.folder / "curve.json").read_text()) == curve
    lines = {line["name"]["en"]: [point["labels"] for point in line["points"]] for line in curve["lines"]}
    whole = lines["with pre-training"][-1]
    assert lines["with pre-training"] == lines["without pre-training"] == lines["majority class"] == [20, whole]
    assert 60 < whole < 96  # what the splits leave

    few, all_ = (load_run_config(plan.folder / name) for name in ("with-20-0", "with-all-0"))
    assert few.model.from_ == str(plan.folder / "with-all-0" / "pretrain")
    assert (few.pretrain, all_.pretrain is None) == (None, False)
    assert load_run_config(plan.folder / "without-20-0").model.from_ is None

    curve_page(tmp_path / "curve.html", curve)
    assert "labelled examples" in (tmp_path / "curve.html").read_text()
    columns, rows = curve_table(curve)
    assert [say(name, "en") for name in columns] == ["accuracy", "20", str(whole)]
    assert all(len(row) == 3 for row in rows)

    silent = Stops()
    measure(CurvePlan(recipe, [], [], [20, 5000], [0], plan.folder), silent)
    assert any("there are not 5,000 labelled examples" in line for line in silent.lines)
    with pytest.raises(UsageError, match=r"another.*options"):
        measure(CurvePlan(recipe | {"train": SETTINGS | {"lr": 0.1}}, [], [], [20], [0], plan.folder), Silent())


def test_a_folder_that_is_not_a_curve_is_left_alone(recipe, tmp_path):
    with pytest.raises(UsageError, match="is not a curve"):
        measure(CurvePlan(recipe, [], [], [20], [0], tmp_path), Silent())


def test_a_curve_whose_data_cannot_be_read_leaves_nothing_behind(recipe, tmp_path):
    """Not even what it was started with, which would refuse the same curve with the column's name."""
    (tmp_path / "bad.csv").write_text("a,b\nbon,pos\n")
    bad = recipe | {"data": {"train": str(tmp_path / "bad.csv")}}
    with pytest.raises(DataError, match=r"column.*like"):
        measure(CurvePlan(bad, [], [], [20], [0], tmp_path / "new" / "curve"), Silent())
    assert not (tmp_path / "new").exists()


def test_seeds_decide_which_examples_keep_their_labels(recipe):
    from attentif.data import CLASSIFY, load_table

    config = load_run_config(recipe).data
    texts = [load_table(config.replace(limit=20, limit_seed=seed), CLASSIFY) for seed in (0, 1)]
    assert set(texts[0].train["text"]) != set(texts[1].train["text"])
    assert texts[0].test["text"] == texts[1].test["text"]


def test_the_interval_is_students():
    found = spread([0.8, 0.9, 1.0])
    assert found["mean"] == pytest.approx(0.9)
    assert found["high"] - found["mean"] == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert spread([0.5]) == {"mean": 0.5, "low": None, "high": None}


@pytest.mark.parametrize(("lang", "title"), [("fr", "exemples étiquetés"), ("en", "labelled examples")])
def test_the_figure_speaks_both_languages(lang, title):
    fig = label_curve(
        "accuracy", [Line("a", [(100, Score(0.8, 0.7, 0.9)), (500, Score(0.9))]), Line("b", [(100, Score(0.5))], ours=False)], lang=lang
    )
    assert fig.layout.xaxis.title.text == title
    assert list(fig.data[0].y) == [80.0, 90.0]
    assert fig.data[1].line.dash == "dot"
