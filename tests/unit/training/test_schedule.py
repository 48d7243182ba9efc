import math
from itertools import pairwise

import pytest

from attentif.training.schedule import SCHEDULES, factor, warmup_steps


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_rate_rises_to_its_peak_and_does_not_exceed_it(kind):
    rates = [factor(kind, step, warmup=10, total=100) for step in range(100)]
    assert rates[:10] == [(step + 1) / 10 for step in range(10)]
    assert max(rates) == 1.0
    assert all(after <= before for before, after in pairwise(rates[10:]))


def test_each_schedule_has_the_value_of_its_equation():
    at = lambda kind, **options: factor(kind, 55, warmup=10, total=100, **options)
    assert at("constant") == 1.0
    assert at("linear") == pytest.approx(0.5)
    assert at("linear", end=0.2) == pytest.approx(0.6)
    assert at("cosine") == pytest.approx((1 + math.cos(math.pi / 2)) / 2)
    assert at("inverse-sqrt") == pytest.approx(math.sqrt(10 / 56))


@pytest.mark.parametrize(("kind", "left"), [("linear", 0.1), ("cosine", 0.1), ("constant", 1.0)])
def test_what_is_left_at_the_end_stays_when_a_run_is_longer_than_foreseen(kind, left):
    assert factor(kind, 100, warmup=0, total=100, end=0.1) == pytest.approx(left)
    assert factor(kind, 130, warmup=0, total=100, end=0.1) == pytest.approx(left)


def test_inverse_sqrt_is_the_one_of_2017_with_its_peak_at_one():
    published = lambda step: min((step + 1) ** -0.5, (step + 1) * 4000**-1.5)
    for step in (0, 100, 3999, 4000, 50_000):
        assert factor("inverse-sqrt", step, warmup=4000, total=100_000) == pytest.approx(published(step) / published(3999))


def test_warmup_is_a_number_of_steps_or_a_share_of_the_run():
    assert warmup_steps(30, 1000) == 30
    assert warmup_steps(0.1, 1000) == 100
