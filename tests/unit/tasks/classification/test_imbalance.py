"""Rare classes: weights in training, shares put back, thresholds chosen on validation, warnings."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

from attentif.tasks.classification.classify import ClassifyConfig
from attentif.tasks.classification.imbalance import balance_of, choose_offsets, class_weights, decide, shares_of
from attentif.tasks.classification.scores import score_classes
from attentif.tasks.metrics import never_answered, ranking_scores

RARE = np.array([0] * 190 + [1] * 10)


def spread(rng: np.random.Generator, shift: float) -> np.ndarray:
    """Probabilities of the second class that order well and never reach a half."""
    z = np.where(RARE == 1, shift, 0.0) + rng.normal(size=len(RARE)) - 4.0
    p = 1 / (1 + np.exp(-z))
    return np.stack([1 - p, p], axis=1)


def test_all_classes_count_the_same_and_an_example_counts_one_on_average() -> None:
    weights = class_weights(RARE, 2)
    assert weights[0] * 190 == pytest.approx(weights[1] * 10)
    assert weights[RARE].mean() == pytest.approx(1.0)


def test_weights_are_taken_and_said_where_a_class_has_under_a_fifth_of_an_equal_share() -> None:
    rare = balance_of(RARE, ["non", "oui"], "auto", "auto")
    assert rare.metric == "balanced_accuracy"
    assert rare.weights is not None
    assert "'oui' counts 10" in rare.notes[0]
    even = balance_of(np.array([0] * 80 + [1] * 20), ["non", "oui"], "auto", "auto")
    assert (even.metric, even.weights, even.notes) == ("accuracy", None, [])
    assert balance_of(RARE, ["non", "oui"], "none", "auto").weights is None


@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1"])
def test_thresholds_chosen_on_validation_find_the_rare_class(metric: Any) -> None:
    p = spread(np.random.default_rng(0), 3.0)
    assert balanced_accuracy_score(RARE, p.argmax(1)) < 0.7
    other = spread(np.random.default_rng(1), 3.0)  # of another sample
    chosen = decide(other, choose_offsets(p, RARE, shares_of(RARE, 2), metric))
    assert balanced_accuracy_score(RARE, chosen) > (0.85 if metric == "balanced_accuracy" else 0.7)
    assert not choose_offsets(p, RARE, shares_of(RARE, 2), "accuracy")


def test_a_class_without_a_validation_example_keeps_the_usual_threshold() -> None:
    p, shares = spread(np.random.default_rng(0), 3.0)[:50], np.array([0.9, 0.1])
    assert choose_offsets(p, RARE[:50], shares, "balanced_accuracy") == np.log(shares).tolist()


@pytest.mark.parametrize("classes", [2, 4])
def test_areas_are_scikit_learns(classes: int) -> None:
    rng = np.random.default_rng(0)
    true, p = rng.integers(classes, size=300), rng.dirichlet(np.ones(classes), size=300).round(2) + 1e-9  # ties
    scores, intervals = ranking_scores(p, true)
    columns = [1] if classes == 2 else range(classes)
    assert scores["auc"] == pytest.approx(np.mean([roc_auc_score(true == c, p[:, c]) for c in columns]))
    assert scores["average_precision"] == pytest.approx(np.mean([average_precision_score(true == c, p[:, c]) for c in columns]))
    low, high = intervals["auc"]
    assert low < scores["auc"] < high


def test_a_class_that_is_never_answered_is_named() -> None:
    p = np.array([[0.9, 0.1]] * 4)
    found = score_classes(np.log(p), np.array([0, 0, 0, 1]), ["non", "oui"], "test", quick=False)
    assert "oui" in never_answered(found.details)[0].en
    assert found.scores["balanced_accuracy"] == 0.5
    assert not never_answered(score_classes(np.log(p), np.zeros(4, np.int64), ["non", "oui"], "test", quick=False).details)


@pytest.mark.parametrize("linear", ["none", "stacked"])
def test_a_trained_run_answers_a_class_of_two_percent(write_csv: Any, ready: Any, teach: Any, linear: str) -> None:
    rng = np.random.default_rng(0)
    noise = [" ".join(rng.choice(["film", "salle", "acteur", "scène", "fin", "jeu"], 5)) for _ in range(1000)]
    rows = [{"text": f"{text} panne" if n % 50 == 0 else text, "label": "oui" if n % 50 == 0 else "non"} for n, text in enumerate(noise)]
    task = ClassifyConfig(linear=linear).build()
    task, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("rare.csv", rows)})
    assert any("task.class_weights" in note for note in prepared.notes)
    assert task.metric_for(prepared.state) == "balanced_accuracy"
    teach(task, prepared, model, steps=15)
    state = task.finalize(model, prepared, budget=4096, say=lambda line: None)
    found = task.evaluate(model, state, prepared.test)
    assert found.scores["balanced_accuracy"] > 0.9
    (answer,) = task.predict(model, state, prepared.tokenizers, ["une salle en panne"])
    assert answer.output == "oui"
    assert answer.probability == pytest.approx(answer.scores["oui"])


def test_a_baseline_that_is_better_on_validation_answers_where_that_is_asked(write_csv: Any, ready: Any) -> None:
    rows = [{"text": f"un film {'beau' if n % 2 else 'nul'} {n}", "label": "oui" if n % 2 else "non"} for n in range(300)]
    task, prepared, model = ready(ClassifyConfig(use="best").build(), "encoder-tiny", {"train": write_csv("avis.csv", rows)})
    state = task.finalize(model, prepared, budget=4096, say=lambda line: None)  # of a network that has learned nothing
    assert not state.answers.needs_network
    assert task.evaluate(model, state, prepared.test).scores["accuracy"] == 1.0
    assert "linear model of words alone" in task.caveat(model, state)
