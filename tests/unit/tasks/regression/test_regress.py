"""A number for a text: the scale of the data, the ridge regression beneath, intervals that hold."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

from attentif.data.labels import decimals
from attentif.errors import DataError
from attentif.sklearn import AttentifRegressor
from attentif.tasks.regression.regress import RegressConfig
from attentif.tasks.regression.report import regression_scores
from attentif.tasks.regression.ridge import fit_ridge
from attentif.tasks.states import load_state, save_state
from attentif.view.page import Page, render

WORTH = {"affreux": 0.5, "faible": 1.5, "moyen": 2.5, "bon": 3.5, "superbe": 4.5}


def make_rows(count: int = 400) -> list[dict[str, str]]:
    rng = np.random.default_rng(0)
    rows = []
    for n in range(count):
        word = list(WORTH)[int(rng.integers(5))]
        value = WORTH[word] + rng.normal() * 0.2
        rows.append({"text": f"un film {word} numéro {n % 17}", "note": f"{value:.2f}".replace(".", ",")})  # as Excel writes in France
    return rows


@pytest.fixture(params=["none", "stacked"])
def trained(request: Any, write_csv: Any, ready: Any, teach: Any) -> Any:
    task = RegressConfig(linear=request.param).build()
    task, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("notes.csv", make_rows())})
    teach(task, prepared, model, steps=40)
    return task, prepared, model, task.finalize(model, prepared, budget=4096, say=lambda line: None)


def test_a_rating_is_learned_in_the_unit_of_the_file_with_an_interval_that_holds(trained: Any) -> None:
    task, prepared, model, state = trained
    found = task.evaluate(model, state, prepared.test)
    mean, ridge = task.baselines(prepared, lambda line: None)
    assert found.scores["mae"] < 0.35 < mean.scores["mae"]
    if state.linear is not None:
        assert found.scores["mae"] < ridge.scores["mae"] + 0.05
    assert found.scores["r2"] > 0.9
    assert found.scores["coverage"] > 0.75
    low, high = task.predict(model, state, prepared.tokenizers, ["un film affreux", "un film superbe"])
    assert low.details["low"] < low.details["value"] < low.details["high"] < high.details["value"]
    assert abs(float(high.output) - 4.5) < 0.6


def test_a_saved_state_answers_the_same(trained: Any, tmp_path: Any) -> None:
    task, prepared, model, state = trained
    save_state(tmp_path, state)
    kept = load_state(tmp_path, task.state_type)
    asked = ["un film bon", "un film"]
    answers = [task.predict(model, own, prepared.tokenizers, asked) for own in (state, kept)]
    assert [one.details for one in answers[0]] == [one.details for one in answers[1]]


def test_the_report_shows_answers_against_truth_and_the_largest_errors(trained: Any) -> None:
    task, prepared, model, state = trained
    page = render(Page("notes", task.sections(task.evaluate(model, state, prepared.test))))
    assert "Answers and truth" in page
    assert "notes.csv:" in page


def test_scores_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=100)
    answers = true + rng.normal(size=100)
    scores, intervals = regression_scores(true, answers, 1.0)
    assert scores["mae"] == pytest.approx(mean_absolute_error(true, answers))
    assert scores["r2"] == pytest.approx(r2_score(true, answers))
    assert intervals["mae"][0] < scores["mae"] < intervals["mae"][1]


def test_a_row_is_read_by_a_model_of_other_rows() -> None:
    texts = [f"mot{n}" for n in range(50)]  # what a row says is known from that row alone
    values = np.random.default_rng(0).normal(size=50)
    model, left_out = fit_ridge(texts, values)
    assert np.abs(model.log_odds(texts)[:, 0] - values).mean() < np.abs(left_out - values).mean()


def test_a_value_that_is_no_number_is_named_with_its_place(write_csv: Any, ready: Any) -> None:
    rows = make_rows(40)
    rows[3]["note"] = "quatre"
    with pytest.raises(DataError, match=r"notes\.csv:5: .*quatre"):
        ready(RegressConfig().build(), "encoder-tiny", {"train": write_csv("notes.csv", rows)})


def test_decimal_labels_of_a_classification_are_said() -> None:
    said = decimals(["3.5", "4", "2,5"])
    assert said is not None
    assert "regress" in said
    assert decimals(["3", "4"]) is None
    assert decimals(["3.5", "oui"]) is None


def test_the_estimator_fits_and_predicts_numbers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    rows = pd.DataFrame(make_rows(120))
    values = rows.note.str.replace(",", ".").astype(float)
    small = {"model": {"base": "encoder-tiny", "width": 16, "layers": 1}, "task": {"vectors": False}}
    small["train"] = {"steps": 3, "epochs": 0, "min_steps": 0, "eval_every": 3, "threads": 1}
    model = AttentifRegressor(overrides=small).fit(rows.text, values)
    assert model.score(rows.text, values) > 0.8
