"""`attentif train regress`: from a table of texts and numbers to numbers for new texts."""

import csv
from pathlib import Path

import pytest
from terminal import typed

pytestmark = pytest.mark.system


def test_ratings_are_trained_evaluated_and_predicted_into_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    words = {"affreux": "1,5", "moyen": "3", "superbe": "4,5"}
    rows = [(n, f"un film {word} {n % 13}", note) for n in range(100) for word, note in words.items()]
    with (tmp_path / "avis.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "texte", "note"), *rows])
    small = ["model.base=encoder-tiny", "model.width=16", "model.layers=1", "task.vectors=false", "train.steps=20", "train.epochs=0"]
    done = typed("train", "regress", "--data", "avis.csv", "--out", "r", *small, "train.min_steps=0", "train.threads=1")
    assert done.code == 0, done.err
    assert "MAE" in done.out
    assert "R²" in done.out
    assert typed("evaluate", "r", "--data", "avis.csv").code == 0
    done = typed("predict", "r", "--file", "avis.csv", "--out", "answers.csv")
    assert done.code == 0, done.err
    answers = list(csv.DictReader((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()))
    assert len(answers) == len(rows)
    assert float(answers[0]["low"]) <= float(answers[0]["value"]) <= float(answers[0]["high"])
    assert answers[0]["id"] == "0"
    assert (tmp_path / "r" / "report.html").is_file()
