"""Questions about pictures, and pictures from words, by the commands as a user types them."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attentif.cli.main import run as attentif
from attentif.data.builtin import scenes

pytestmark = pytest.mark.system

SHORT = ["train.epochs=0", "train.steps=6", "train.eval_every=6", "train.threads=1", "model.width=16", "model.layers=1"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own, and small built-in scenes."""
    for split, count in (("train", 20), ("valid", 3), ("test", 5)):
        monkeypatch.setitem(scenes.SCENES, split, count)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_questions(folder: Path) -> None:
    from PIL import Image

    with (folder / "questions.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "question", "answer"])
        for number in range(20):
            Image.fromarray(np.full((24, 24), 12 * number, np.uint8)).save(folder / f"{number}.png")
            rows.writerow([f"{number}.png", "Fait-il clair ?", "oui" if number > 9 else "non"])


@pytest.mark.parametrize("base", ["vision-language-tiny", "one-encoder-tiny"])
def test_a_question_about_a_picture_from_training_to_maps(base: str, user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attentif(["train", "vision-language", f"model.base={base}", *SHORT, "--out", "run", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["metric"] == "exact_match"
    assert len(results["baselines"]) == 3
    page = (user / "run" / "report.html").read_text(encoding="utf-8")
    assert "Words over the picture" in page
    assert " pictures, chosen on " in page  # the scores are of questions, of which a picture has several
    write_questions(user)
    assert attentif(["predict", "run", "--file", "questions.csv", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 20
    asked = json.dumps({"image": "3.png", "question": "Combien y a-t-il de chiffres ?"})
    assert attentif(["predict", "run", asked]) == 0
    capsys.readouterr()
    (user / "blanc.csv").write_text("image,question\n3.png, \n", encoding="utf-8")
    assert attentif(["predict", "run", "--file", "blanc.csv"]) == 1
    assert capsys.readouterr().err == "error: blanc.csv:2: the question is empty: there is nothing to read\n"
    assert attentif(["predict", "run", '{"image": "3.png", "question": ""}']) == 2
    assert "an input lacks its image or its question" in capsys.readouterr().err
    assert attentif(["maps", "run", asked, "--out", "maps.html"]) == 0
    assert "Les mots sur l" in (user / "maps.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert attentif(["evaluate", "run", "--data", "questions.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 20
    assert attentif(["paint", "run", "un sept"]) == 2
    assert "this run cannot paint: it is a run of vision-language" in capsys.readouterr().err


def test_a_table_of_ones_own_and_what_is_wrong_with_it(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_questions(user)
    assert attentif(["train", "vision-language", "--data", "questions.csv", *SHORT, "tokenizer.min_count=1", "--out", "own"]) == 0
    capsys.readouterr()
    (user / "7.png").write_bytes(b"\x89PNG cut short")
    assert attentif(["train", "vision-language", "--data", "questions.csv", *SHORT, "--out", "bad"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: questions.csv:9: 7.png: ")
    assert not (user / "bad").exists()


def test_a_digit_is_painted_as_asked_for(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    words = ["train", "paint", *SHORT, "data.limit=60", "task.codes=10", "task.draws=2", "--out", "painter", "--json"]
    assert attentif(words) == 0
    results: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"recognised", "bits_per_token"} == set(results["scores"])
    assert (user / "painter" / "task.safetensors").is_file()
    assert attentif(["paint", "painter", "un sept", "--out", "sept.png", "--count", "5", "--seed", "1"]) == 0
    assert capsys.readouterr().out.strip() == "sept.png"
    with Image.open(user / "sept.png") as picture:
        assert picture.size == (3 * 98 + 2, 2 * 98 + 2)  # three in a row, two rows
    assert attentif(["paint", "painter", "un sept", "--out", "sept.png"]) == 2
    assert "--force" in capsys.readouterr().err
    assert attentif(["paint", "painter", "un onze", "--out", "onze.png"]) == 2
    assert "'onze' was never asked for in training" in capsys.readouterr().err
    assert not (user / "onze.png").exists()
    assert attentif(["predict", "painter", "a seven", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["output"].startswith("data:image/png;base64,")


def test_help_starts_without_torch() -> None:
    code = "import sys, attentif.cli.paint; print([m for m in ('torch', 'sklearn', 'PIL') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
