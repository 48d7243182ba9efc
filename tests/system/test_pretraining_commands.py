"""Pre-training and what follows it, as a user types it: the recipes at reduced size."""

import json
from pathlib import Path

import pytest

from attentif.cli.main import run as attentif

pytestmark = pytest.mark.system

SHORT = ["train.epochs=0", "train.steps=3", "train.eval_every=3", "train.threads=1", "data.limit=200", "model.layers=1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = attentif(list(words))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def texts() -> str:
    """A small file of reviews, so that validation and test are small too."""
    things = ["film", "récit", "décor", "dialogue", "rôle"]
    rows = [
        f"Le {a} est {tone} et le {b} aussi.,{label}" for a in things for b in things for tone, label in (("bon", "pos"), ("long", "neg"))
    ]
    Path("avis.csv").write_text("\n".join(["text,label", *rows]))
    return "avis.csv"


@pytest.mark.parametrize(("recipe", "metric"), [("masked", "accuracy"), ("replaced", "auc")])
def test_a_recipe_is_trained_used_and_gone_on_with_under_another_head(
    recipe: str, metric: str, texts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answer(capsys, "train", recipe, "--data", texts, *SHORT, "--out", "body", "--json")
    assert code == 0
    results = json.loads(out)
    assert (results["metric"], len(results["baselines"])) == (metric, 2)
    assert Path("body/report.html").is_file()

    text = "Le film est [MASK]." if recipe == "masked" else "Le film est bon."
    code, out, _ = answer(capsys, "predict", "body", text, "--json")
    assert code == 0
    assert "[MASK]" not in json.loads(out)[0]["output"]

    code, out, _ = answer(capsys, "evaluate", "body", "--data", texts, "--json")
    assert code == 0
    assert metric in json.loads(out)["scores"]

    Path("notes.toml").write_text(
        f'task = {{ kind = "classify" }}\nmodel.from = "body"\n[data]\ntrain = "{texts}"\n[train]\nsteps = 2\neval_every = 2\nthreads = 1\n'
    )
    code, out, err = answer(capsys, "train", "notes.toml", "--out", "notes")
    assert code == 0
    assert "the model begins with" in err
    assert "its head left out" in err
    assert answer(capsys, "train", "notes.toml", "model.base=bert-tiny")[0] == 2


def test_mistakes_are_one_line(texts: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.txt").write_text("Un seul document, et rien d'autre.\n")
    cases = {
        ("train", "reviews", "model.from=nowhere"): "model.from: nowhere: no such run",
        ("train", "masked", "model.base=decoder-tiny"): "reads from left to right only",
        ("train", "masked", "task.share=1.5"): "task.share",
        ("train", "masked", "--data", "one.txt"): "error: one.txt",
        ("curve", "reviews", "--labels", "some"): "--labels: must be numbers",
        ("curve", "reviews", "--from", "nowhere"): "model.from: nowhere: no such run",
    }
    for words, message in cases.items():
        code, _, err = answer(capsys, *words)
        assert code in (1, 2), words
        last = err.strip().splitlines()[-1]
        assert last.startswith("error: "), words
        assert message in last, (words, last)
    assert not Path("runs").exists()
