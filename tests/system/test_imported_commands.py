"""Other people's models as a user types it: imported, asked, scored, trained on, exported; and what cannot be, in one line."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from foreign import save
from transformers import pipeline
from transformers.utils import logging

import attentif
from attentif.cli.main import run as typed
from attentif.tasks.classification.calibration import Answers

pytestmark = pytest.mark.system

REVIEWS = [("un film magnifique", "pos"), ("un film ennuyeux", "neg"), ("magnifique !", "pos"), ("trop long", "neg")] * 12
SHORT = ["train.epochs=0", "train.min_steps=0", "train.steps=4", "train.eval_every=4", "train.patience=0", "--threads=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logging.set_verbosity_error()
    place = tmp_path_factory.mktemp("typed")
    for name in ("roberta-classes", "camembert-masked", "gpt2", "t5"):
        save(name, place / name)
    rows = "\n".join(f"{text.replace(',', ' ')} {number},{label}" for number, (text, label) in enumerate(REVIEWS))
    (place / "avis.csv").write_text(f"text,label\n{rows}\n")
    return place


@pytest.fixture
def ask(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def asked(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = typed(list(words))
        return code, *capfd.readouterr()

    return asked


Ask = Callable[..., tuple[int, str, str]]


def test_a_model_is_imported_asked_scored_and_exported(ask: Ask, place: Path) -> None:
    assert ask("import", "roberta-classes", "runs/r")[:2] == (0, "runs/r\n")
    expected = pipeline("text-classification", model=str(place / "roberta-classes"), top_k=None)(["un film magnifique"])[0]
    for source in ("runs/r", "roberta-classes"):
        code, out, _ = ask("predict", source, "un film magnifique", "--json")
        assert code == 0
        assert json.loads(out)[0]["scores"] == pytest.approx({answer["label"]: answer["score"] for answer in expected}, abs=1e-5)
    for source in ("runs/r", "roberta-classes"):
        code, out, _ = ask("show", source)
        assert (code, 'kind = "given"' in out) == (0, True)
    assert ask("maps", "runs/r", "un film", "--out", "m.html")[0] == 0
    labelled = "\n".join(["text,label", "un film magnifique,très bon", "un film ennuyeux,mauvais"])
    (place / "juste.csv").write_text(labelled + "\n")
    assert ask("evaluate", "runs/r", "--data", "juste.csv")[0] == 0
    code, out, err = ask("export", "runs/r", "--to", "hf", "back")
    assert (code, out) == (0, "back\n")
    assert "RobertaForSequenceClassification (roberta) written" in err
    assert {file.name for file in (place / "back").iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "README.md",
    }
    again = pipeline("text-classification", model=str(place / "back"), top_k=None)(["un film magnifique"])[0]
    assert [(answer["label"], round(answer["score"], 5)) for answer in again] == [(a["label"], round(a["score"], 5)) for a in expected]


def test_texts_are_written_by_an_imported_model(ask: Ask) -> None:
    assert ask("import", "gpt2", "runs/g")[0] == 0
    both = [ask("generate", source, "Il était", "--max-tokens", "6") for source in ("gpt2", "runs/g")]
    assert both[0] == both[1]
    assert both[0][0] == 0


def test_a_folder_that_asks_for_beams_is_searched_and_talked_to(ask: Ask, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(place / "gpt2", place / "searched")
    (place / "searched" / "generation_config.json").write_text('{"num_beams": 3, "max_new_tokens": 6}')
    asked = ask("generate", "searched", "Il était")
    assert asked == ask("generate", "gpt2", "Il était", "--beams", "3", "--max-tokens", "6")
    assert asked[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("Bonjour\n"))
    code, _, err = ask("chat", "searched", "--max-tokens", "6")
    assert code == 0
    assert "beam" in err


def test_a_run_begins_with_the_body_and_the_words_of_a_folder(ask: Ask, place: Path) -> None:
    code, _, err = ask(
        "train", "reviews", "--data", "avis.csv", "model.from=camembert-masked", "task.linear=none", "--out", "runs/begun", *SHORT
    )
    assert code == 0, err
    assert "the model begins with" in err
    run = attentif.load(place / "runs/begun")
    assert run.config.made.family == "camembert"
    assert run.tokenizer.json == attentif.load(place / "camembert-masked").tokenizer.json
    assert run.model.config.head.pool == "first"  # as CamembertForSequenceClassification's
    assert ask("export", "runs/begun", "fine", "--to", "hf")[0] == 0
    classify = pipeline("text-classification", model=str(place / "fine"), top_k=None)
    own = transformers.CamembertForSequenceClassification.from_pretrained(place / "fine")
    assert own.config.id2label == {0: "neg", 1: "pos"}
    with torch.no_grad():
        logits = own(**classify.tokenizer("un film long", return_tensors="pt", return_token_type_ids=False)).logits[0]
    run.state = replace(run.state, answers=Answers())  # without the temperature that was chosen after training
    scores = run.predict(["un film long"])[0].scores
    assert [scores["neg"], scores["pos"]] == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)


def test_a_head_that_fits_is_kept(ask: Ask, place: Path) -> None:
    """The same task, the same classes: nothing is fresh."""
    labels = ["mauvais", "moyen", "très bon"]
    rows = "\n".join(f"texte numéro {number},{labels[number % 3]}" for number in range(48))
    (place / "trois.csv").write_text(f"text,label\n{rows}\n")
    code, _, err = ask(
        "train", "reviews", "--data", "trois.csv", "model.from=roberta-classes", "task.linear=none", "--out", "runs/three", *SHORT
    )
    assert code == 0, err
    assert "fresh" not in err


def test_a_text_to_text_model_goes_on_with_its_own_customs(ask: Ask, place: Path) -> None:
    rows = "\n".join(f"chat {number},cat {number}" for number in range(48))
    (place / "paires.csv").write_text(f"source,target\n{rows}\n")
    code, _, err = ask("train", "numbers", "--data", "paires.csv", "model.from=t5", "--out", "runs/t5", *SHORT)
    assert code == 0, err
    assert "fresh" not in err
    run = attentif.load(place / "runs/t5")
    assert run.config.task.start == ["<pad>"]
    assert len(run.predict(["chat 3"], max_tokens=4)) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("import nowhere runs/x", 1, "error: nowhere: no such run or folder"),
        ("import runs/typo runs/x", 1, "error: runs/typo: no such run or folder"),
        ("import org/name runs/x", 1, "error: org/name: cannot be downloaded"),
        ("import org/name runs/x", 1, "run `hf download org/name --local-dir name`, and give that folder"),
        ("import runs runs/x", 2, "error: runs: is no Hugging Face folder: it has no config.json"),
        ("import gpt2 runs/r", 2, "error: runs/r: exists; "),
        ("import runs/r runs/x", 2, "error: runs/r: is a run already"),
        ("evaluate runs/r", 2, "error: runs/r: was imported: the data that it was trained on are not known"),
        ("evaluate roberta-classes", 2, "was imported"),
        (
            "train runs/r",
            2,
            "error: runs/r: was imported, and has no training configuration: attentif train RECIPE --data FILE",
        ),
        ("train --resume runs/r", 2, "was imported, and has no training configuration"),
        ("train reviews --data avis.csv model.from=avis.csv", 2, "model.from: avis.csv: no such run"),
        ("export runs/r --to pickle out", 2, "--to: 'pickle' is not understood; there is hf"),
        ("export runs/r runs/r", 2, "runs/r: "),
        ("export runs/r back", 2, "error: back: exists; replace it with --force, or choose another place"),
        ("export runs/r --family gpt2 out", 2, "gpt2 cannot represent"),
        ("export runs/r --family gpt3 out", 2, "model_type: 'gpt3' is not understood"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(ask: Ask, place: Path, words: str, code: int, message: str) -> None:
    if not (place / "runs/r").exists():
        ask("import", "roberta-classes", "runs/r")
    if not (place / "back").exists():
        ask("export", "runs/r", "back")
    found, _, err = ask(*words.split())
    assert (found, message in err) == (code, True), err
    assert err.count("\n") == 1
    assert not (place / "out").exists()
    assert not (place / "runs/x").exists()
