"""`attentif compare` as a user types it: a table, a JSON, a report; and whatever interrupts it, the same result."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attentif
from attentif.cli.main import run as command
from attentif.hub.folder import differences
from attentif.lab.compare.comparison import Comparison
from attentif.lab.compare.gather import timeless
from attentif.plugin import PREFIX

pytestmark = pytest.mark.system

RECIPE = """\
data.train = "avis.csv"
task.kind = "classify"
tokenizer.kind = "word"
model.base = "encoder-tiny"
[train]
steps = 24
checkpoint_every = 4
log_every = 4
lr = 5e-3
patience = 1
"""
SUITE = """\
# Shallow or deep?
recipe = "classify.toml"
models = ["encoder-tiny", { name = "shallow", base = "encoder-tiny", layers = 1 }]
seeds = 2
budget = "params=20k"
evaluations = 4
"""


def write_files(folder: Path) -> None:
    words = {"positif": ("superbe", "touchant", "drôle"), "négatif": ("ennuyeux", "raté", "creux")}
    rows = [
        (f"{what} {n} est {word}", label) for what in ("le film", "ce roman") for n in range(15) for label in words for word in words[label]
    ]
    random.Random(0).shuffle(rows)
    with (folder / "avis.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("review", "polarity"), *rows])
    (folder / "classify.toml").write_text(RECIPE)
    (folder / "suite.toml").write_text(SUITE)
    (folder / "astray.toml").write_text('recipe = "clasify"\nmodels = ["encoder-tiny"]\n')
    (folder / "lost.toml").write_text('models = ["encoder-tiny"]\nrecipe = "nowhere/classify.toml"\n')


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's own, which stays the current one; runs are found again in a cache of its own."""
    place = tmp_path_factory.mktemp("user")
    write_files(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("ATTENTIF_CACHE", str(place / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in [name for name in sys.modules if name.startswith(PREFIX)]:  # plug-ins of other tests are not this user's
            patch.delitem(sys.modules, name)
        yield place


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> dict[str, Any]:
    assert command(["compare", "suite.toml"]) == 0
    return json.loads((folder / "runs/suite-compare/compare.json").read_text())


def test_a_comparison_is_one_json_with_everything(undisturbed: dict[str, Any], folder: Path) -> None:
    (part,) = undisturbed["comparisons"]
    assert undisturbed["complete"]
    assert [(run["model"], run["seed"]) for run in part["runs"]] == [
        ("encoder-tiny", 0), ("shallow", 0), ("encoder-tiny", 1), ("shallow", 1),
    ]  # fmt: skip
    for run in part["runs"]:
        assert run["failed"] is None
        assert 0 <= run["scores"]["accuracy"] <= 1
        assert len(run["curve"]["steps"]) == 4
        assert (run["steps"], run["ended"]) == (24, "steps")  # though the recipe would stop early
        assert run["curve"]["tokens"] == sorted(run["curve"]["tokens"])
        assert (folder / "runs/suite-compare" / run["run"] / "report.html").is_file()  # an ordinary run
    for model in part["models"]:
        assert abs(model["error"]) <= 0.02
        assert model["timing"]["peak_memory"] > 0
    assert len(part["statistics"]["differences"]) == 1
    assert [rival["name"]["en"] for rival in part["baselines"]]
    assert "2 seeds are few" in part["conclusion"]["en"]
    report = (folder / "runs/suite-compare/report.html").read_text(encoding="utf-8")
    assert "shallow" in report
    assert part["conclusion"]["fr"].split(".")[0] in report.replace("&#x27;", "'")


def test_called_again_everything_is_there_already(undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert command(["compare", "suite.toml"]) == 0
    shown = capsys.readouterr()
    assert "4 of 4 runs are there already" in shown.err
    assert "shallow" in shown.out
    assert "This result holds for these data" in " ".join(shown.out.split())
    assert timeless(json.loads((folder / "runs/suite-compare/compare.json").read_text())) == timeless(undisturbed)


@pytest.mark.kill
def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_json(undisturbed: dict[str, Any], tmp_path: Path) -> None:
    """Killed as soon as a run has a checkpoint, before it is done, and again when the runs are gathered; its processes end with it."""
    one = ["compare", "suite.toml", "--models", "encoder-tiny", "--out"]
    assert command([*one, str(tmp_path / "expected")]) == 0  # of runs that are there already
    words = [sys.executable, "-m", "attentif", *one, str(tmp_path / "out")]
    environment = os.environ | {"ATTENTIF_CACHE": str(tmp_path / "cache")}  # the undisturbed runs are not to be found
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("out/classify/*/checkpoints/step-*")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(list(tmp_path.glob("out/classify/*/results.json"))) < 2
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("measuring the simple baselines" in line for line in process.stderr)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, expected = (timeless(json.loads((tmp_path / place / "compare.json").read_text())) for place in ("out", "expected"))
    assert found == expected, list(differences(found, expected))


def test_rates_are_tried_and_what_breaks_down_is_reported_while_the_others_go_on(
    undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """The rate chosen is the recipe's own: that run was made before, for another comparison, and is found."""
    wild = SUITE.replace("layers = 1", "layers = 1, lr = 1e30").replace(
        "seeds = 2", "seeds = 1\nlr = { rates = [1e30, 5e-3], share = 0.25 }"
    )
    Path("wild.toml").write_text(wild)
    assert command(["compare", "wild.toml"]) == 1
    shown = capsys.readouterr()
    assert "failed: classify: shallow, seed 0: " in shown.err
    assert "the same run is in" in shown.err
    assert "encoder-tiny" in shown.out
    found = Comparison(folder / "runs/wild-compare", json.loads(Path("runs/wild-compare/compare.json").read_text()))
    (part,) = found.data["comparisons"]
    assert part["search"]["chosen"] == {"encoder-tiny": 5e-3}
    trials = {trial["lr"]: trial for trial in part["search"]["trials"]}
    kept, broken = trials[5e-3], trials[1e30]
    assert part["search"]["metric"] == "loss"
    assert kept["steps"] == 6
    folder_of_trial = folder / "runs/wild-compare" / kept["run"]
    assert (folder_of_trial / "trial.json").is_file()
    assert not (folder_of_trial / "results.json").exists()  # the test split is not looked at while a rate is chosen
    assert "encoder-tiny, rate 0.005: loss " in shown.err
    assert "not finite" in broken["failed"]
    assert [run["failed"] is None for run in part["runs"]] == [True, False]
    assert "1 run of shallow failed" in part["conclusion"]["en"]
    assert [rival["name"] for rival in part["baselines"]] == [rival["name"] for rival in undisturbed["comparisons"][0]["baselines"]]
    assert found.table()[0]["accuracy"] == undisturbed["comparisons"][0]["runs"][0]["scores"]["accuracy"]
    assert "encoder-tiny" in found._repr_html_()
    assert found.save(folder / "page.html").is_file()


def test_from_python_it_is_the_same_comparison(undisturbed: dict[str, Any]) -> None:
    found = attentif.compare("suite.toml", ["encoder-tiny"], seeds=[0, 1], out="again")
    assert [run["scores"] for run in found.data["comparisons"][0]["runs"]] == [
        run["scores"] for run in undisturbed["comparisons"][0]["runs"] if run["model"] == "encoder-tiny"
    ]


def test_dry_run_shows_the_sizes_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        command(["compare", "classify.toml", "--models", "encoder-tiny", "--budget", "params=20k", "--dry-run", "--json", "--out", "dry"])
        == 0
    )
    ((one,),) = [part["models"] for part in json.loads(capsys.readouterr().out)]
    assert one["parameters"] == pytest.approx(20_000, rel=0.02)
    assert not Path("dry").exists()


def test_dry_run_shows_the_sizes_that_a_comparison_goes_on_with_and_leaves_it_alone(
    undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    begun = shutil.copytree(folder / "runs/suite-compare", "begun")
    kept = Path(begun, "classify/sizes.json")
    kept.write_text(kept.read_text().replace('"context": ', '"context": 1000'))
    before = {path: path.stat().st_mtime_ns for path in Path(begun).rglob("*")}
    assert command(["compare", "suite.toml", "--out", begun, "--dry-run", "--json"]) == 0
    (part,) = json.loads(capsys.readouterr().out)
    assert all(model["context"] > 1000 for model in part["models"])
    assert {path: path.stat().st_mtime_ns for path in Path(begun).rglob("*")} == before


def test_a_shape_that_nobody_chose_is_said_before_anything_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "classify.toml", "--models", "encoder-tiny,encoder-small", "--budget", "params=50k", "--dry-run", "--out", "dry"]
    assert command(words) == 0
    said = capsys.readouterr().err
    assert "The budget changes the width of encoder-small (" in said
    assert "encoder-tiny (" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", "--models", "lstm-tiny"], "no suite, recipe or TOML file is called 'nothing'"),
        (["four-memory"], "no suite, recipe or TOML file is called 'four-memory'; did you mean 'four-memories'?"),
        (["astray.toml"], "error: astray.toml:1: recipe: no recipe or TOML file is called 'clasify'"),
        (["lost.toml"], "error: lost.toml:2: recipe: nowhere/classify.toml: no such file"),
        (["translate", "--models", "transformer-tiny"], "the recipe translate brings no data (pairs.tsv stands for yours)"),
        (["suite.toml", "train.seed=3"], "option 'train.seed=3': train.seed: the comparison decides it for every run"),
        (["suite.toml", "--lr", "1e-3", "train.lr=3e-3"], "option 'train.lr=3e-3': train.lr: the comparison decides it for every run"),
        (["classify.toml", "--models", "encoder-tiny", "--budget", "tokens=1"], "1 tokens cannot be met: a step reads "),
        (["nothing.toml"], "nothing.toml"),
        (["classify.toml"], "models: none are named: give --models lstm-tiny,mamba-tiny, or a suite"),
        (["classify.toml", "--models", ","], "option --models: models: the list of models is empty"),
        (["classify.toml", "--models", "lstm-tinny"], "no model preset is called 'lstm-tinny'; did you mean 'lstm-tiny'"),
        (
            ["classify.toml", "--models", "transformer-tiny"],
            "option --models: models: transformer-tiny: model: classify reads with one stack",
        ),
        (["classify.toml", "--models", "encoder-tiny", "--seeds", "0"], "--seeds: one at least is needed"),
        (["classify.toml", "--models", "encoder-tiny", "--seeds", "many"], "--seeds: must be how many, or which ones"),
        (["classify.toml", "--models", "encoder-tiny", "--seeds", "1,1"], "option --seeds: seeds: seeds are different numbers"),
        (["classify.toml", "--models", "encoder-tiny", "--budget", "params=3"], "error: models: encoder-tiny cannot be brought to 3"),
        (["classify.toml", "--models", "encoder-tiny", "--budget", "5min"], "budget '5min' is not of the form kind=amount"),
        (["classify.toml", "--models", "encoder-tiny", "--budget", "seconds=9", "--jobs", "2"], "--jobs: where seconds are the budget"),
        (["classify.toml", "--models", "encoder-tiny", "--lr", "fast"], "--lr: must be a learning rate"),
        (["classify.toml", "--models", "encoder-tiny", "--lr-share", "0.5"], "--lr-share: goes with several rates"),
        (["classify.toml", "--models", "encoder-tiny", "--out", "avis.csv"], "exists and is not a comparison"),
        (["train.steps=3"], "is a setting: give the suite or the recipe first"),
        (["word2vec", "--models", "lstm-tiny"], "this is fitted, not trained step by step"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = things()
    assert command(["compare", *words]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert things() == before


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", [], "is empty"),
        ("review,polarity\nbon,oui\n", [], "bad.csv: "),
        ('review,polarity\n"bon,oui\n', [], "bad.csv:2: a quote opened in this row is never closed"),
        ("review,polarity\n" + "bon,oui\n" * 20, [], "all 20 rows have the label 'oui'"),
        ("a,b\nbon,oui\n", [], "no column looks like the text; name it: --text NAME"),
        ("a,b\nbon,oui\n", ["--text", "a", "--label", "c"], "no column is called 'c' (asked for as label)"),
        (None, [], "bad.csv: no such file"),
    ],
)
@pytest.mark.parametrize("made", [False, True])
def test_data_that_cannot_be_used_leave_nothing_behind(
    text: str | None, options: list[str], message: str, made: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").unlink(missing_ok=True)
    if text is not None:
        Path("bad.csv").write_text(text)
    if made:
        Path("made").mkdir(exist_ok=True)
    before = things()
    out = "made" if made else "new/place"
    assert command(["compare", "classify.toml", "--models", "encoder-tiny", "--data", "bad.csv", *options, "--out", out]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert things() == before


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (SystemExit(143), 143)])
def test_stopped_while_models_are_sized_nothing_is_left_behind(
    stop: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise stop

    monkeypatch.setattr("attentif.lab.compare.plan.solve", interrupted)
    before = things()
    words = ["compare", "classify.toml", "--models", "encoder-tiny", "--budget", "params=20k", "--out", "new/place"]
    if code == 130:
        assert command(words) == code
        assert capsys.readouterr().err.splitlines()[-1] == "stopped; the models were not sized yet"
    else:
        with pytest.raises(SystemExit):
            command(words)
    assert things() == before


def test_a_comparison_that_was_there_before_keeps_what_it_has(
    undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = things()
    kept = (folder / "runs/suite-compare/suite.json").read_text()
    assert command(["compare", "suite.toml", "--models", "lstm-tiny", "--budget", "params=3", "--out", "runs/suite-compare"]) == 2
    assert "cannot be brought to 3 parameters" in capsys.readouterr().err
    assert things() == before
    assert (folder / "runs/suite-compare/suite.json").read_text() == kept


def things() -> set[Path]:
    """All that stands in the user's folder, but for what may always be made again."""
    return {path for path in Path().rglob("*") if path.parts[0] != "cache"}
