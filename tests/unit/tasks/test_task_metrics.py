import math
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, f1_score

from attentif.tasks.metrics import (
    accuracy,
    bits_per_byte,
    by_group,
    by_length,
    classification_scores,
    confusion,
    exactly,
    macro_f1,
    mean_interval,
    perplexity,
    share,
    share_of,
    text_scores,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 5])
def test_accuracy_and_macro_f1_agree_with_scikit_learn(classes: int) -> None:
    true, predicted = RNG.integers(0, classes, (2, 300))
    table = confusion(true, predicted, classes)
    assert accuracy(table) == pytest.approx(accuracy_score(true, predicted))
    assert macro_f1(table) == pytest.approx(f1_score(true, predicted, average="macro"))


def test_a_row_of_the_confusion_matrix_is_a_true_class() -> None:
    assert confusion([0, 0, 1], [1, 1, 1], 2).tolist() == [[0, 2], [0, 1]]


def test_a_class_that_never_occurs_does_not_count_in_macro_f1() -> None:
    assert macro_f1(confusion([0, 1], [0, 1], 3)) == 1.0


def test_the_interval_is_that_of_a_bootstrap_over_examples() -> None:
    true = RNG.integers(0, 2, 400)
    predicted = np.where(RNG.random(400) < 0.8, true, 1 - true)
    _, intervals = classification_scores(confusion(true, predicted, 2))
    tables = [confusion(true[rows], predicted[rows], 2) for rows in RNG.integers(0, 400, (2000, 400))]
    for key, score in (("accuracy", accuracy), ("f1", macro_f1)):
        assert intervals[key] == pytest.approx(tuple(np.quantile(score(tables), [0.025, 0.975])), abs=0.01)


@pytest.mark.parametrize("total", [1, 20, 359])
def test_all_right_or_all_wrong_is_not_certain(total: int) -> None:
    exact = lambda hits: binomtest(hits, total).proportion_ci(0.95, method="exact")
    for hits, table in ((total, [[total, 0], [0, 0]]), (0, [[0, total], [0, 0]])):
        _, intervals = classification_scores(np.array(table))
        assert share(hits, total)[1] == intervals["accuracy"] == intervals["f1"]
        assert intervals["accuracy"] == pytest.approx((exact(hits).low, exact(hits).high))


def test_intervals_are_the_same_each_time() -> None:
    table = np.array([[40, 10], [5, 45]])
    assert classification_scores(table) == classification_scores(table)


def test_nothing_scored_is_an_error_and_not_a_score() -> None:
    with pytest.raises(ValueError, match="no example"):
        classification_scores(np.zeros((2, 2), dtype=np.int64))
    with pytest.raises(ValueError, match="no example"):
        share(0, 0)


def test_text_scores_are_those_of_sacrebleu() -> None:
    references = ["the cat sat on the mat today", "it is raining in Paris again", "we will see"]
    written = ["the cat sat on a mat today", "it is raining in Paris again", "we shall see what comes"]
    found = text_scores(written, references, draws=50)
    assert found.scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, [references]).score)
    assert found.scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [references]).score)
    assert found.scores["exact_match"] == pytest.approx(1 / 3)
    assert "tok:13a" in found.signatures["bleu"]
    for key in ("bleu", "chrf", "exact_match"):
        low, high = found.intervals[key]
        assert low <= found.scores[key] <= high


def test_exact_match_forgives_spaces_and_nothing_else() -> None:
    assert exactly(" two  hundred ", "two hundred")
    assert not exactly("two hundred", "Two hundred")


def test_bits_per_byte_of_a_fair_coin_for_each_bit_is_eight() -> None:
    assert bits_per_byte(1000 * math.log(256), 1000) == pytest.approx(8.0)


def test_perplexity_beyond_a_float_is_infinite() -> None:
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert perplexity(1e4) == math.inf


def test_mean_interval_weighs_windows_by_their_length() -> None:
    low, high = mean_interval([10.0, 200.0], [10, 100])  # means 1 and 2: every draw lies between
    assert low == pytest.approx(1.0)
    assert high == pytest.approx(2.0)


def test_length_parts_hold_every_example_once() -> None:
    lengths = RNG.integers(1, 40, 500)
    hits = RNG.random(500) < 0.5
    parts = by_length(lengths, share_of(hits))
    assert sum(part["examples"] for part in parts) == 500
    assert sum(part["examples"] * part["value"] for part in parts) == pytest.approx(hits.sum())
    assert all(a["high"] < b["low"] for a, b in pairwise(parts))


def test_groups_come_largest_first() -> None:
    found = by_group(["b", "a", "b"], lambda rows: {"rows": float(rows.sum())})
    assert found == [{"group": "b", "examples": 2, "rows": 2.0}, {"group": "a", "examples": 1, "rows": 1.0}]


def test_examples_without_a_group_are_scored_together() -> None:
    assert [part["group"] for part in by_group(["", "a", ""], lambda _: {})] == ["—", "a"]
