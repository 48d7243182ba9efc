"""Labelled texts as a user types it, at reduced size: both stages, calibrated, averaged with a linear model, used again."""

import csv
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import typed

from attentif.data.builtin.reviews import load as reviews

pytestmark = pytest.mark.system

SMALL = ["model.width=32", "train.epochs=0", "train.min_steps=0", "train.steps=16", "train.eval_every=16", "train.lr=5e-3", "--threads=1"]
STAGE = [
    "pretrain.task.kind=masked",
    "task.adversarial=1",
    "task.linear=averaged",
    "pretrain.epochs=0",
    "pretrain.min_steps=0",
    "pretrain.steps=6",
    "pretrain.eval_every=6",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Film reviews with the film they are about, and the same with several labels; the folder is the current one."""
    place, before = tmp_path_factory.mktemp("avis"), Path.cwd()
    rows = reviews(0, train=400, valid=2, test=4)["train"]
    chance = random.Random(0)
    with (place / "avis.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["film", "texte", "avis"])
        writer.writerows((f"film {chance.randrange(60)}", *row) for row in zip(rows["text"], rows["label"], strict=True))
    topics = {"sport": "le match", "cuisine": "la recette", "voyage": "la plage"}
    with (place / "sujets.jsonl").open("w", encoding="utf-8") as file:
        for n in range(240):
            own = [label for label in topics if chance.random() < 0.5]
            file.write(json.dumps({"text": f"{n} : " + " puis ".join(topics[label] for label in own), "labels": own}) + "\n")
    os.chdir(place)
    yield place
    os.chdir(before)


@pytest.fixture(scope="module")
def trained(folder: Path) -> tuple[Path, str, str]:
    words = ["train", "reviews", "--data", "avis.csv", "--text", "texte", "--label", "avis", "--group", "film", "--out", "run"]
    code, out, err = typed(*words, *SMALL, *STAGE)
    assert code == 0, err
    return folder / "run", err, out


def test_both_parts_are_scored_and_said(trained: tuple[Path, str, str]) -> None:
    run, err, out = trained
    results = json.loads((run / "results.json").read_text())
    parts = results["details"]["parts"]
    assert 0 <= parts["weight"] <= 1
    assert results["scores"]["network_accuracy"] == parts["network"]["scores"]["accuracy"]
    assert "answers are averages" in err
    assert "this run's network alone" in out
    assert "this run, an average" in out
    assert results["details"]["ece"].keys() == {"before", "network", "after"}
    names = [rival["name"]["en"] for rival in results["baselines"]]
    assert "TF-IDF + logistic regression" in names
    weighted = next(rival for rival in results["baselines"] if rival["name"]["en"].startswith("naive-Bayes"))
    assert weighted["scores"]["accuracy"] == parts["linear"]["scores"]["accuracy"]
    assert results["pretrain"]["task"] == "masked"
    page = (run / "report.html").read_text()
    assert "Une moyenne de deux modèles" in page
    assert not any(path.suffix in (".pkl", ".joblib", ".npy") for path in run.rglob("*"))


def test_groups_stay_on_one_side_of_the_cut(trained: tuple[Path, str, str]) -> None:
    assert "cut from train by 'film'" in trained[1]


def test_the_saved_run_scores_and_answers_as_it_did(trained: tuple[Path, str, str]) -> None:
    run = trained[0]
    results = json.loads((run / "results.json").read_text())
    code, out, err = typed("evaluate", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["scores"] == pytest.approx(results["scores"])
    assert "answers are averages" in err
    code, out, err = typed("predict", "run", "Un film magnifique.", "--json")
    assert code == 0, err
    (answer,) = json.loads(out)
    assert sum(answer["scores"].values()) == pytest.approx(1.0)
    assert "answers are averages" in err


def test_several_labels_at_once_by_the_same_command(folder: Path) -> None:
    words = ["train", "reviews", "--data", "sujets.jsonl", "task.several=true", "--out", "sujets", "--json"]
    code, out, err = typed(*words, *SMALL, *STAGE)
    assert code == 0, err
    results = json.loads(out)
    assert results["metric"] == "micro_f1"
    assert results["scores"]["micro_f1"] > 0.8  # the words say it all: the linear part is enough
    code, out, _ = typed("predict", "sujets", "le match puis la plage", "--json")
    assert code == 0
    assert set(json.loads(out)[0]["output"].split(", ")) == {"sport", "voyage"}
