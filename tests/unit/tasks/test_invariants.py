"""What holds for every registered task and fitted model, whatever it predicts."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attentif
from attentif.config import Layer
from attentif.models import build
from attentif.tasks import TASKS
from attentif.tasks.base import TaskState
from attentif.tasks.fitted import build_fitted
from attentif.tasks.states import load_state, save_state
from attentif.text.fitted import FITTED
from attentif.training.config import FitConfig
from attentif.training.load import load_config, load_run_config
from attentif.training.progress import Silent
from attentif.training.run import check_config
from attentif.training.weights import map_model, write_weights

TINY = {"layers": 1, "dropout": 0.0}
FEW = {"limit": 80}
TEXT = {"train": "corpus.txt"}
# a recipe of each task, and what makes it small
CASES: dict[str, dict[str, Any]] = {
    "answer": {"data": FEW},
    "classify": {"data": FEW},
    "contrastive": {"data": FEW},
    "copying": {"data": FEW},
    "denoise": {"data": TEXT, "tokenizer": {"vocab": 400}},
    "digits": {"data": FEW},
    "forecast": {"task": {"look_back": 24, "horizon": 6}},
    "heartbeats": {"data": FEW},
    "masked": {"data": TEXT, "tokenizer": {"vocab": 200}},
    "regress": {"data": {"train": "notes.csv"}, "task": {"vectors": False}},
    "replaced": {"data": TEXT, "tokenizer": {"vocab": 200}},
    "numbers": {"data": FEW},
    "paint": {"data": {"limit": 300}, "task": {"codes": 16, "draws": 1}},
    "stdlib": {"data": TEXT, "tokenizer": {"vocab": 400}, "task": {"context": 32}},
    "summarise": {"data": FEW},
    "tag": {"data": FEW},
    "text-to-text": {"data": FEW},
    "tones": {"data": FEW},
    "video": {"data": FEW},
    "vision-language": {"data": FEW},
}
ELSEWHERE = {"embed", "cloze"}  # not trained; a masked task with another reading
FIXED = {
    "contrastive",
    "forecast",
    "heartbeats",
    "tones",
    "vision-language",
    "paint",
    "digits",
    "video",
}  # whose presets have parts of their own


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [f"Le chat numéro {n} dort près du feu. Un chien passe, il aboie {n % 7} fois." for n in range(120)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines))
    (tmp_path / "notes.csv").write_text("text,note\n" + "".join(f'"{line}",{n % 7}.5\n' for n, line in enumerate(lines)))
    return tmp_path


@pytest.mark.parametrize("recipe", CASES)
def test_a_task_never_changes_and_answers_the_same_from_its_files(recipe: str, corpus: Path) -> None:
    layers = [Layer({key: value}, "test") for key, value in CASES[recipe].items()]
    config = load_run_config(recipe, [*layers, Layer({"model": TINY if recipe not in FIXED else {"dropout": 0.0}}, "test")])
    task, adapted = check_config(config)
    before = copy.deepcopy(vars(task))
    prepared = task.prepare(config.data, config.tokenizer or {}, adapted, lambda line: None)
    torch.manual_seed(0)
    model = build(prepared.sizes.fill(adapted))
    task.init_weights(model, prepared, lambda line: None)
    loss = task.step(model.train(), prepared.train.batch([0, 1]))
    loss.total.backward()
    assert torch.isfinite(loss.total)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad / max(loss.count, 1)
    model.eval()
    state = task.finalize(model, prepared, budget=4096, say=lambda line: None)
    scores = task.evaluate(model, state, prepared.valid, budget=4096, quick=True)
    if task.scores_by_batch:
        assert score_elsewhere(task, model, state, prepared.valid) == scores
    inputs = task.examples(prepared, 1) if recipe != "masked" else ["Le chat ___ près du feu."]
    options = {"temperature": 0.0} if "temperature" in vars(config.task) else {}
    answers = task.predict(model, state, prepared.tokenizers, inputs, **options)
    assert vars(task) == before
    assert isinstance(prepared.state, task.state_type)

    save_state(corpus, state)
    write_weights(corpus / "model.safetensors", model)
    again = map_model(corpus / "model.safetensors", model.config)
    others = config.task.build().predict(again, load_state(corpus, task.state_type), prepared.tokenizers, inputs, **options)
    assert [one.output for one in others] == [one.output for one in answers]
    for one, other in zip(answers, others, strict=True):  # mapped weights lie elsewhere in memory: sums may differ in their last bits
        assert other.scores == pytest.approx(one.scores, rel=1e-5)


def score_elsewhere(task: Any, model: Any, state: Any, split: Any) -> Any:
    """As a cluster does: what is called and what it returns are sent."""

    def remote_map(work: Any, batches: Any) -> Any:
        sent = pickle.loads(pickle.dumps(work))
        return [pickle.loads(pickle.dumps(sent(model, split, split.batch(rows)))) for rows in batches]

    return task.evaluate(model, state, split, budget=4096, quick=True, remote_map=remote_map)


def test_every_task_has_a_case() -> None:
    assert {load_run_config(recipe).task.kind for recipe in CASES} | ELSEWHERE == {*TASKS}


@pytest.mark.parametrize("kind", [name for name in FITTED if name in ("ngram", "word2vec", "glove", "ibm1")])
def test_a_fitted_model_answers_the_same_from_its_files(kind: str, corpus: Path) -> None:
    data = {"name": "numbers", "limit": 100} if kind == "ibm1" else TEXT
    values = {"data": data, "tokenizer": {"kind": "word", "min_count": 1}, "fit": {"kind": kind}}
    config = load_config(values)
    assert isinstance(config, FitConfig)
    task = build_fitted(config.fit)
    before = copy.deepcopy(vars(task))
    material = task.prepare(config.data, config.tokenizer, config.fit, lambda line: None)
    model = config.fit.build()
    model.fit(material.train.of)
    scores = task.evaluate(model, TaskState(), material.test).scores
    model.save(corpus)
    assert task.evaluate(config.fit.build().load(corpus), TaskState(), material.test).scores == pytest.approx(scores, rel=1e-6)
    assert vars(task) == before


def test_arrays_and_nested_values_of_a_state_come_back(tmp_path: Path) -> None:
    from attentif.tasks.series.forecast import ForecastState

    state = ForecastState(("a", "b"), {"year": "an"}, None, ("est",), (), (3600, 0), 24, *(np.arange(2.0)[None] + n for n in range(3)))
    save_state(tmp_path, state)
    again = load_state(tmp_path, ForecastState)
    assert (again.columns, again.date, again.step, again.period) == (state.columns, state.date, state.step, state.period)
    assert np.array_equal(again.naive, state.naive)


def test_a_run_folder_of_an_earlier_format_is_still_read(corpus: Path) -> None:
    """Before format 3, [task] of config.toml held what the data taught."""
    rows = [f"film {n} vraiment {word},{label}" for n in range(20) for word, label in (("superbe", "oui"), ("creux", "non"))]
    (corpus / "avis.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    config = {"task": {"kind": "classify", "calibrate": False}, "tokenizer": {"kind": "word"}, "train": {"steps": 2, "threads": 1}}
    run = attentif.train(config | {"model": {"base": "encoder-tiny", "width": 16, "layers": 1}}, "avis.csv", out="run", watch=Silent())
    answers = [one.scores for one in run.predict(["film superbe", "film creux"])]
    file = corpus / "run" / "config.toml"
    text = file.read_text().replace("format = 3\n", "").replace("[task]\n", '[task]\nlabels = ["non", "oui"]\npairs = false\n')
    file.write_text("\n".join(line for line in text.split("\n") if line != "labels = []"))
    for name in ("task.json", "manifest.json"):
        (corpus / "run" / name).unlink()
    again = attentif.load("run")
    assert again.state == run.state
    assert [one.scores for one in again.predict(["film superbe", "film creux"])] == answers
