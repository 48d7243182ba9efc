"""The statistics are right: false alarms as often as they should be, intervals that cover as they say, the numbers of scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from attentif.lab.statistics import bootstrap, compare, effect_size, holm, paired_p
from attentif.tasks.seeds import mean

COMPARISONS = 1000


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_identical_models_are_called_different_once_in_twenty(seeds: int) -> None:
    """Scores share what a seed does to both models (the order of the data): pairing takes it out."""
    rng = np.random.default_rng(seeds)
    alarms = 0
    for _ in range(COMPARISONS):
        shared = rng.normal(0, 0.03, seeds)
        one, other = (0.8 + shared + rng.normal(0, 0.01, seeds) for _ in range(2))
        alarms += compare({"a": list(one), "b": list(other)})[0].different
    assert 0.03 <= alarms / COMPARISONS <= 0.07


def test_among_four_identical_models_some_pair_is_called_different_once_in_twenty_at_most() -> None:
    rng = np.random.default_rng(0)
    suites = 1000
    alarms = sum(any(one.different for one in compare({name: list(rng.normal(0, 1, 5)) for name in "abcd"})) for _ in range(suites))
    assert 0.01 <= alarms / suites <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / suites)  # Holm is careful where comparisons share a model


def test_scores_that_are_not_normal_do_not_raise_the_alarm_more_often() -> None:
    """Skewed scores; their differences are symmetric, and that is what is tested."""
    rng = np.random.default_rng(1)
    alarms = sum(compare({"a": list(rng.exponential(1, 5)), "b": list(rng.exponential(1, 5))})[0].different for _ in range(COMPARISONS))
    assert alarms / COMPARISONS <= 0.07


def test_a_real_difference_is_found() -> None:
    rng = np.random.default_rng(2)
    found = sum(compare({"a": list(rng.normal(1, 1, 10)), "b": list(rng.normal(3, 1, 10))})[0].different for _ in range(200))
    assert found > 190


@pytest.mark.parametrize("runs", [3, 8])
def test_intervals_of_a_mean_cover_as_they_say(runs: int) -> None:
    rng = np.random.default_rng(runs)
    trials = 4000
    inside = 0
    for _ in range(trials):
        found = mean(list(rng.normal(5, 2, runs)))
        inside += found.low <= 5 <= found.high
    assert inside / trials == pytest.approx(0.95, abs=0.01 + 3 * math.sqrt(0.95 * 0.05 / trials))


def test_intervals_of_examples_cover_as_they_say() -> None:
    """The paired difference of two accuracies on 200 examples; the bootstrap's own error is about 1 %."""
    rng = np.random.default_rng(3)
    trials, inside = 250, 0
    for number in range(trials):
        easy = rng.random(200)
        one, other = easy < 0.8, easy + rng.normal(0, 0.2, 200) < 0.75
        truth = 0.8 - _expected_share()
        low, high = bootstrap([one, other], lambda a, b: a.mean() - b.mean(), draws=200, seed=number)
        inside += low <= truth <= high
    assert inside / trials == pytest.approx(0.95, abs=0.01 + 3 * math.sqrt(0.95 * 0.05 / trials))


def _expected_share() -> float:
    """P(u + z < 0.75), u uniform, z normal of deviation 0.2."""
    u = (np.arange(10_000) + 0.5) / 10_000
    return float(stats.norm.cdf((0.75 - u) / 0.2).mean())


def test_numbers_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    one, other = rng.normal(0, 1, (2, 7))
    (found,) = compare({"a": list(one), "b": list(other)})
    theirs = stats.ttest_rel(one, other)
    interval = theirs.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx((theirs.pvalue, interval.low, interval.high), rel=1e-9)
    assert found.effect == pytest.approx((one - other).mean() / (one - other).std(ddof=1))
    ours = mean(list(one))
    assert (ours.low, ours.high) == pytest.approx(stats.t.interval(0.95, 6, one.mean(), stats.sem(one)), rel=1e-9)


def test_bootstrap_is_that_of_scipy() -> None:
    values = np.random.default_rng(5).exponential(1, 100)
    theirs = stats.bootstrap([values], np.mean, n_resamples=4000, method="percentile", rng=0).confidence_interval
    assert bootstrap([values], np.mean, draws=4000) == pytest.approx((theirs.low, theirs.high), abs=0.03)  # both are drawn


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    first, second = holm([math.nan, 0.04])
    assert math.isnan(first)
    assert second == 0.04


def test_one_seed_allows_no_conclusion() -> None:
    (found,) = compare({"a": [0.9], "b": [0.1]})
    assert not found.different
    assert math.isnan(found.p)
    assert math.isnan(mean([0.9]).low)
    assert "one seed" in found.words(higher_is_better=True).en


def test_what_never_varies() -> None:
    assert paired_p([0.0, 0.0]) == 1.0
    assert paired_p([0.1, 0.1]) == 0.0


def test_words_say_which_is_better_and_by_how_much() -> None:
    scores = {"lstm": [0.50, 0.52, 0.51], "mamba": [0.61, 0.64, 0.62]}
    (found,) = compare(scores)
    assert found.words(higher_is_better=True).en.startswith("mamba does better than lstm by 0.113 (")
    assert found.words(higher_is_better=False).en.startswith("lstm does better than mamba by 0.113 (")
    assert "graines" in found.words(higher_is_better=True).fr
    (alike,) = compare({"a": [0.5, 0.6, 0.4], "b": [0.6, 0.5, 0.4]})
    assert "3 seeds do not tell them apart" in alike.words(higher_is_better=True).en
    assert [effect_size(d) for d in (0.1, -0.3, 0.6, 3.0)] == ["negligible", "small", "medium", "large"]


def test_scores_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="seed by seed"):
        compare({"a": [1.0, 2.0], "b": [1.0]})
    with pytest.raises(ValueError, match="drawn together"):
        bootstrap([[1, 2], [1]], lambda a, b: 0.0)
    with pytest.raises(ValueError, match="a value"):
        mean([])
