"""Estimators keep scikit-learn's conventions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from small_reviews import ROWS, SMALL

from attentif.errors import UsageError
from attentif.sklearn import AttentifClassifier, AttentifForecaster

TEXTS = np.array([row["avis"] for row in ROWS], dtype=object)
LABELS = np.array([int(row["sentiment"] == "positif") for row in ROWS])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))


def small(**train):
    changes = {key: value for key, value in SMALL.items() if key != "train"} | {"train": SMALL["train"] | train}
    return AttentifClassifier(overrides=changes)


def test_a_classifier_answers_with_the_labels_that_it_was_given():
    model = small(steps=40, lr=0.01).fit(TEXTS, LABELS)
    assert model.classes_.tolist() == [0, 1]
    p = model.predict_proba(TEXTS[:6])
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    answers = model.predict(list(TEXTS[:6]))
    assert answers.dtype == LABELS.dtype
    np.testing.assert_array_equal(answers, p.argmax(1))
    assert model.score(TEXTS, LABELS) > 0.9
    np.testing.assert_array_equal(model.predict(pd.Series(TEXTS[:6], name="quoi")), answers)


def test_pipelines_and_cross_validation_clone_it():
    lower = FunctionTransformer(lambda texts: np.array([text.lower() for text in texts], dtype=object))
    scores = cross_val_score(make_pipeline(lower, small()), TEXTS, LABELS, cv=2, error_score="raise")
    assert len(scores) == 2


CHECKS = (
    "check_estimator_cloneable", "check_get_params_invariance", "check_set_params", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_mixin_order", "check_estimator_tags_renamed", "check_valid_tag_types",
)  # fmt: skip


@pytest.mark.parametrize("kind", [AttentifClassifier, AttentifForecaster])
@pytest.mark.parametrize("check", CHECKS)
def test_it_passes_the_checks_that_need_no_numbers(kind, check):
    getattr(estimator_checks, check)(kind.__name__, kind())


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="one label per row"):
        small().fit(TEXTS, LABELS[:-1])
    with pytest.raises(ValueError, match="two of pairs"):
        small().fit(np.zeros((4, 3)), LABELS[:4])
    assert clone(small()).get_params()["recipe"] == "classify"


def test_a_fitted_estimator_is_kept_as_a_run_not_as_a_pickle():
    import pickle

    with pytest.raises(UsageError) as error:
        pickle.dumps(small().fit(TEXTS, LABELS))
    assert error.value.code == "pickle"


def test_a_forecaster_goes_on_with_the_dates():
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=120), "valeur": np.sin(np.arange(120) / 3)})
    changes = {
        "task": {"look_back": 14, "horizon": 7},
        "model": {"width": 16, "layers": 1, "frontend": {"patch": 7, "stride": 7}},
        "train": {"steps": 2, "eval_every": 2, "epochs": 0, "min_steps": 0, "threads": 1},
    }
    rows = AttentifForecaster(overrides=changes).fit(frame).predict(frame)
    assert [row["date"] for row in rows] == [f"2024-04-{day:02}" for day in range(30, 31)] + [f"2024-05-{day:02}" for day in range(1, 7)]
