import math

import numpy as np
import pytest
from scipy import stats

from attentif.lab.fit import crossover, power_law

LENGTHS = [128, 256, 512, 1024, 2048, 4096]


def noisy(factor: float, exponent: float, rng: np.random.Generator, noise: float, n: list[int]) -> list[float]:
    return [factor * length**exponent * math.exp(rng.normal(0, noise)) for length in n]


def test_an_exact_law_is_found_exactly() -> None:
    law = power_law(LENGTHS, [3 * n**1.5 for n in LENGTHS])
    assert (law.factor, law.exponent, law.r2) == pytest.approx((3, 1.5, 1))
    assert law.high - law.low < 1e-9
    assert law(100) == pytest.approx(3000)


def test_the_interval_of_an_exponent_is_that_of_scipy() -> None:
    y = noisy(2, 1.2, np.random.default_rng(0), 0.1, LENGTHS)
    law, theirs = power_law(LENGTHS, y), stats.linregress(np.log(LENGTHS), np.log(y))
    half = stats.t.ppf(0.975, 4) * theirs.stderr
    assert (law.exponent, law.low, law.high) == pytest.approx((theirs.slope, theirs.slope - half, theirs.slope + half))
    assert law.r2 == pytest.approx(theirs.rvalue**2)


def test_the_interval_of_an_exponent_covers_as_it_says() -> None:
    rng, trials = np.random.default_rng(1), 2000
    laws = [power_law(LENGTHS, noisy(1, 1.3, rng, 0.05, LENGTHS)) for _ in range(trials)]
    assert sum(law.low <= 1.3 <= law.high for law in laws) / trials == pytest.approx(0.95, abs=0.01 + 3 * 0.005)


def test_repetitions_do_not_make_a_law_of_what_is_none() -> None:
    """A fixed cost bends the line; however often it is measured, the exponent is no better known."""
    bent = [5e-3 + 1e-5 * n for n in LENGTHS]
    once, often = power_law(LENGTHS, bent), power_law(LENGTHS * 20, bent * 20)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert often.points == 6


def test_two_points_have_no_interval_unless_they_were_measured_again() -> None:
    assert math.isnan(power_law([1, 2], [1, 2]).low)
    assert power_law([1, 1, 2, 2], [1, 1.1, 2, 2.2]).low < 1 < power_law([1, 1, 2, 2], [1, 1.1, 2, 2.2]).high


def test_curves_cross_where_they_are_equal() -> None:
    found = crossover(LENGTHS, [1e-6 * n**2 for n in LENGTHS], [1e-3 * n for n in LENGTHS])
    assert found is not None
    assert found.n == pytest.approx(1000)
    assert found.below == "first"
    assert found.low == pytest.approx(found.high) == pytest.approx(1000)
    swapped = crossover(LENGTHS, [1e-3 * n for n in LENGTHS], [1e-6 * n**2 for n in LENGTHS])
    assert swapped is not None
    assert swapped.below == "second"


def test_the_interval_of_a_crossing_covers_as_it_says() -> None:
    rng, trials = np.random.default_rng(2), 2000
    inside = 0
    for _ in range(trials):
        found = crossover(LENGTHS, noisy(1e-6, 2, rng, 0.1, LENGTHS), noisy(1e-3, 1, rng, 0.1, LENGTHS))
        assert found is not None
        inside += found.low <= 1000 <= found.high
    assert inside / trials == pytest.approx(0.95, abs=0.01 + 3 * 0.005)


def test_parallel_curves_do_not_cross() -> None:
    rng = np.random.default_rng(3)
    assert crossover(LENGTHS, noisy(1, 1, rng, 0.05, LENGTHS), noisy(2, 1, rng, 0.05, LENGTHS)) is None
    assert crossover(LENGTHS, LENGTHS, LENGTHS) is None


def test_two_points_cross_somewhere_between_nothing_and_everything() -> None:
    found = crossover([1, 100], [1, 100], [10, 10])
    assert found is not None
    assert (found.n, found.low, found.high) == (pytest.approx(10), 0.0, math.inf)


@pytest.mark.parametrize(("n", "y", "message"), [([1, 1], [1, 2], "two different"), ([1, 2], [0, 1], "positive"), ([1, 2], [1], "as many")])
def test_what_cannot_be_fitted_is_refused(n: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        power_law(n, y)
