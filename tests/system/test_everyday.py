"""What one types every day: runs are listed, lengthened and found again; near misses are answered with what was meant."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Done

from attentif import load
from attentif.cli.options import complete_names, complete_recipes, complete_runs

pytestmark = pytest.mark.system


def test_runs_are_listed_with_score_data_date_and_state(typed: Callable[..., Done], tmp_path: Path) -> None:
    shutil.copytree("runs/classify", tmp_path / "classify")
    shutil.copytree("runs/translate", tmp_path / "cassé")
    (tmp_path / "cassé" / "config.toml").write_text("ceci n'est pas du TOML")
    found = {Path(run["path"]).name: run for run in json.loads(typed("list", "runs", "--folder", str(tmp_path), "--json").out)}
    assert (found["classify"]["kind"], found["classify"]["data"], found["classify"]["state"]) == ("classify", "avis.csv", "finished")
    assert "accuracy" in found["classify"]["score"].lower()
    assert found["cassé"]["state"] == "damaged"
    assert "runs/translate" in typed("list", "runs").out
    assert "no runs" in typed("list", "runs", "--folder", str(tmp_path / "vide")).err


def test_a_finished_run_is_lengthened_and_goes_on_from_its_last_step(typed: Callable[..., Done], tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree("runs/classify", run)
    before = json.loads((run / "results.json").read_text())["steps"]
    done = typed("train", "--resume", str(run), f"train.steps={before + 8}")
    assert done.code == 0, done.err
    assert f"resuming from step {before}" in done.err
    assert json.loads((run / "results.json").read_text())["steps"] == before + 8
    assert typed("verify", str(run)).code == 0
    assert typed("train", "--resume", str(run), "model.layers=3").code == 2
    assert typed("train", "--resume", str(run), "reviews").code == 2


def test_a_run_finds_its_data_from_another_folder(typed: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Path("runs/classify").resolve()
    expected = json.loads(typed("evaluate", str(run), "--json").out)["scores"]
    monkeypatch.chdir(tmp_path)
    assert json.loads(typed("evaluate", str(run), "--json").out)["scores"] == expected


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["train", "classify.toml", "--epochs", "3"], "train.epochs=VALUE"),
        (["train", "classify.toml", "epochs=3"], "train.epochs=3"),
        (["train", "classify.toml", "layers=2"], "model.layers=2"),
        (["train", "avis.csv"], "attentif train classify --data avis.csv"),
        (["predict", "runs/classify", "avis.csv"], "attentif predict runs/classify --file avis.csv"),
        (["predict", "classify", "superbe"], "runs/classify"),
        (["evaluate", "clasify"], "runs/classify"),
    ],
)
def test_near_misses_are_answered_with_what_was_meant(typed: Callable[..., Done], words: list[str], meant: str) -> None:
    done = typed(*words)
    assert (done.code, done.out) == (2, "")
    assert meant in done.err
    assert len(done.err.splitlines()) == 1


def test_early_stopping_is_said(typed: Callable[..., Done], tmp_path: Path) -> None:
    changes = ("train.patience=1", "train.steps=40", "train.eval_every=2", "train.lr=1e-9", "train.best_by=score")
    done = typed("train", "classify.toml", *changes, "--out", str(tmp_path / "run"))
    assert re.search("stopped early: .* did not improve", done.err)


def test_tables_are_french_where_the_user_is(typed: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTIF_LANG", "fr")
    shown = typed("evaluate", "runs/classify").out
    assert "exactitude" in shown.lower()
    assert "intervalle" in shown
    assert "étiquette" in typed("predict", "runs/classify", "superbe").out
    assert "exactitude" in typed("list", "runs").out
    assert "par exemple" in typed("list", "--help").out.lower()
    assert typed("evaluate", "clasify").err.startswith("erreur : clasify: ce modèle n’existe pas")
    assert "une recette est attendue" in typed("train", "avis.csv").err
    monkeypatch.setenv("ATTENTIF_LANG", "de")
    assert typed("evaluate", "runs/classify").code == 2


def test_the_shell_completes_recipes_presets_and_runs(trained: object) -> None:
    assert "reviews" in complete_recipes("rev")
    assert complete_runs("runs/cl") == ["runs/classify"]
    assert {"gpt2", "runs/classify"} <= {*complete_names("gpt2"), *complete_names("runs/cl")}


def test_a_word_that_the_tokenizer_does_not_know_has_no_senses(typed: Callable[..., Done]) -> None:
    done = typed("senses", "runs/classify", "zythum", "le zythum est superbe", "un zythum raté")
    assert (done.code, "does not know 'zythum'" in done.err) == (2, True)


def test_an_answer_is_explained_by_its_words_and_the_nearest_training_rows(typed: Callable[..., Done], tmp_path: Path) -> None:
    text = "le film numéro 3 est superbe"
    found = json.loads(typed("explain", "runs/classify", text, "--json").out)
    run = load("runs/classify")
    (whole,), (without,) = run.predict([text]), run.predict(["le film numéro 3 est"])
    last = found["parts"][-1]
    assert last["name"] == "superbe"
    assert last["removal"] == pytest.approx(whole.scores[whole.output] - without.scores[whole.output], abs=1e-5)
    assert all(isinstance(part["gradient"], float) for part in found["parts"])
    assert len(found["neighbours"]) == 5
    assert found["neighbours"][0]["similarity"] >= found["neighbours"][-1]["similarity"]
    assert found["neighbours"][0]["label"] in ("positif", "négatif")
    assert "superbe" in typed("explain", "runs/classify", text, "--neighbours", "0").out
    page = tmp_path / "pourquoi.html"
    assert typed("explain", "runs/classify", text, "--out", str(page)).code == 0
    assert "Pourquoi cette réponse" in page.read_text()
    assert "superbe" in run.explain(text)._repr_html_()


def test_rows_that_were_trained_on_are_told_and_the_others_scored_apart(typed: Callable[..., Done], tmp_path: Path) -> None:
    done = typed("evaluate", "runs/classify", "--data", "avis.csv")
    assert "rows were trained on" in done.err
    assert "not trained on" in done.out
    found = json.loads(typed("evaluate", "runs/classify", "--data", "avis.csv", "--json").out)
    rows = len(Path("avis.csv").read_text().splitlines()) - 1
    assert found["examples"] == rows
    assert found["details"]["trained_on"] + found["details"]["unseen"]["examples"] == rows
    test = json.loads(typed("evaluate", "runs/classify", "--split", "test", "--json").out)
    unseen = found["details"]["unseen"]  # what was chosen on validation flatters its rows too
    assert unseen["examples"] == test["examples"]
    assert unseen["scores"]["accuracy"] == pytest.approx(test["scores"]["accuracy"])
    (tmp_path / "neuf.csv").write_text("review,polarity\nun roman jamais lu est superbe,positif\nun roman jamais lu est raté,négatif\n")
    done = typed("evaluate", "runs/classify", "--data", str(tmp_path / "neuf.csv"))
    assert "trained on" not in done.err + done.out
