"""The recipes of the text tasks as a user types them, at reduced size: train, evaluate, predict."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attentif.cli.main import run as attentif
from attentif.data.builtin import BUILTIN, dna, entities, instructions, questions, reports, reviews

pytestmark = pytest.mark.system

FEW = {"train": 64, "valid": 8, "test": 12}
RECIPES: dict[str, tuple[Any, str, list[str]]] = {  # the module of its data, what it is scored by, and a model small enough
    "tag": (entities, "entity_f1", []),
    "answer": (questions, "answer_f1", []),
    "summarise": (reports, "rougeL", ["task.eval_examples=2"]),
    "text-to-text": (instructions, "exact_match", ["task.max_len=96"]),
    "denoise": (reviews, "token_accuracy", ["task.context=48", "tokenizer.vocab=400"]),
    "dna": (dna, "accuracy", []),
}
SMALL = [
    "model.width=32",
    "model.layers=1",
    "train.epochs=0",
    "train.steps=3",
    "train.eval_every=3",
    "train.threads=1",
    "train.min_steps=0",
]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return attentif(list(words)), *capsys.readouterr()

    return run


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_is_scored_and_answers(recipe: str, typed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module, metric, changes = RECIPES[recipe]
    if recipe == "denoise":  # whose tokens go to the cache; compiled kernels are better found there than made again
        monkeypatch.setenv("ATTENTIF_CACHE", "cache")
    few = module.load(0, **FEW)
    monkeypatch.setitem(BUILTIN, module.SET.name, replace(module.SET, load=lambda seed: few))
    code, out, err = typed("train", recipe, *SMALL, *changes, "--out", "run", "--json")
    assert code == 0, err
    results = json.loads(out)
    assert results["metric"] == metric
    assert metric in results["scores"]
    assert results["baselines"]
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "<html" in page
    code, out, err = typed("evaluate", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["scores"][metric] == pytest.approx(results["scores"][metric], abs=1e-6)
    asked = {
        "answer": '{"question": "Où vit Zoé ?", "context": "Zoé vit à Sète."}',
        "text-to-text": "traduire: deux cents",
        "denoise": "Le film ___ très beau.",
        "dna": "TTGACAGGCATTAGCATTAGCATTATAAT",
    }.get(recipe, "Zoé habite à Sète.")
    code, out, err = typed("predict", "run", asked, "--json")
    assert code == 0, err
    (answer,) = json.loads(out)
    assert {"input", "output", "details"} <= set(answer)
    if recipe == "text-to-text":
        Path("ordres.csv").write_text("task,input,output\ntraduire,deux cents,\njuger,Quel film !,\n", encoding="utf-8")
        code, out, err = typed("predict", "run", "--file", "ordres.csv", "--json")
        assert code == 0, err
        assert [answer["answer_input"] for answer in json.loads(out)] == ["traduire: deux cents", "juger: Quel film !"]


def test_files_of_tagged_words_and_of_questions_are_trained_scored_and_answered(typed: Callable[..., Any]) -> None:
    blocks = [f"Zoé{n} B-PER\nvit O\nà O\nSète{n} B-LOC\n" for n in range(40)]
    Path("noms.conll").write_text("\n".join(blocks), encoding="utf-8")
    code, _, err = typed("train", "tag", "--data", "noms.conll", *SMALL, "--out", "noms")
    assert code == 0, err
    assert "2 columns, token from column 1, tag from column 2" in err
    code, out, err = typed("predict", "noms", "--file", "noms.conll", "--json")
    assert code == 0, err
    assert len(json.loads(out)) == 40
    assert json.loads(out)[0]["input"] == "Zoé0 vit à Sète0"
    passage = lambda n: {
        "context": f"Zoé vit à Sète{n}.",
        "qas": [{"question": f"Où vit Zoé {n} ?", "answers": [{"text": f"Sète{n}", "answer_start": 10}]}],
    }
    Path("q.json").write_text(json.dumps({"data": [{"paragraphs": [passage(n) for n in range(40)]}]}), encoding="utf-8")
    code, _, err = typed("train", "answer", "--data", "q.json", *SMALL, "--out", "questions")
    assert code == 0, err
    code, out, err = typed("predict", "questions", "--file", "q.json", "--json")
    assert code == 0, err
    assert len(json.loads(out)) == 40
    code, _, err = typed("predict", "questions", "Où vit Zoé ?")
    assert code == 2
    assert "a question comes with its passage" in err
    blank = [passage(0), passage(1) | {"qas": [{"question": " "}]}]
    Path("blanc.json").write_text(json.dumps({"data": [{"paragraphs": blank}]}, indent=0), encoding="utf-8")
    code, _, err = typed("predict", "questions", "--file", "blanc.json")
    line = Path("blanc.json").read_text().splitlines().index('"question": " "') + 1
    assert (code, err) == (1, f"error: blanc.json:{line}: the question is empty: there is nothing to read\n")


def test_two_files_of_lines_are_translated(typed: Callable[..., Any]) -> None:
    Path("a.en").write_text("".join(f"The dog number {n} runs.\n" for n in range(60)), encoding="utf-8")
    Path("a.fr").write_text("".join(f"Le chien numéro {n} court.\n" for n in range(60)), encoding="utf-8")
    small = [*SMALL, "tokenizer.vocab=300", "task.eval_examples=2"]
    code, out, err = typed("train", "translate", "--data", "a.en", "--target", "a.fr", *small, "--out", "run", "--json")
    assert code == 0, err
    assert {"bleu", "chrf"} <= set(json.loads(out)["scores"])
    code, out, err = typed("predict", "run", "The dog runs.", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["input"] == "The dog runs."
    code, _, err = typed("train", "translate")
    assert code == 2
    assert err.splitlines()[-1] == "error: the recipe translate brings no data (pairs.tsv stands for yours): give them with --data"


def test_bad_files_say_one_line(typed: Callable[..., Any]) -> None:
    Path("mauvais.conll").write_text(
        "".join(f"Zoé{n} B-PER\n\nSète{n} {'I-LOC' if n == 3 else 'B-LOC'}\n\n" for n in range(20)), encoding="utf-8"
    )
    code, _, err = typed("train", "tag", "--data", "mauvais.conll", "--out", "run")
    assert code == 1
    assert err.splitlines()[-1].startswith("error: mauvais.conll:15: I-LOC at the beginning continues no entity")
    Path("mauvais.json").write_text('{"data": []}')
    code, _, err = typed("train", "answer", "--data", "mauvais.json", "--out", "run")
    assert code == 1
    assert err.splitlines()[-1] == "error: mauvais.json: holds no question"
    assert not Path("run").exists()
