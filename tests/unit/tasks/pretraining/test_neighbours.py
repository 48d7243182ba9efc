"""Counts of what stands between two tokens, against the equation."""

import numpy as np
import pytest

from attentif.tasks.pretraining.neighbours import SHARES, Neighbours

VOCAB, SPECIAL = 9, np.array([0, 1])
# [0] opens a text, [1] closes it
TEXT = np.array([0, 2, 3, 4, 1, 0, 2, 3, 4, 1, 0, 2, 5, 4, 1, 0, 6, 7, 2, 3, 8, 1])


@pytest.fixture(scope="module")
def counts():
    return Neighbours(TEXT, VOCAB, SPECIAL)


def by_hand(left, token, right):
    triples = [(a, b, c) for a, b, c in zip(TEXT, TEXT[1:], TEXT[2:], strict=False) if b not in SPECIAL]
    share = lambda kept: np.mean([b == token for _, b, _ in kept]) if kept else None
    p1 = (sum(b == token for _, b, _ in triples) + 1) / (len(triples) + VOCAB)
    after, before = share([t for t in triples if t[0] == left]), share([t for t in triples if t[2] == right])
    p2 = ((p1 if after is None else after) + (p1 if before is None else before)) / 2
    between = share([t for t in triples if (t[0], t[2]) == (left, right)])
    return SHARES[0] * (p2 if between is None else between) + SHARES[1] * p2 + SHARES[2] * p1


def test_probabilities_are_those_of_the_equation(counts):
    left, token, right = (grid.flatten() for grid in np.meshgrid(*[np.arange(VOCAB)] * 3, indexing="ij"))
    expected = [by_hand(*triple) for triple in zip(left, token, right, strict=True)]
    np.testing.assert_allclose(counts.probability(left, token, right), expected, rtol=1e-12)


def test_probabilities_sum_to_one_whatever_the_neighbours(counts):
    tokens = np.arange(VOCAB)
    for left, right in ((2, 4), (2, 8), (7, 7), (0, 3)):
        same = np.full(VOCAB, left), np.full(VOCAB, right)
        assert counts.probability(same[0], tokens, same[1]).sum() == pytest.approx(1.0)


def test_the_guess_is_the_commonest_between_both_then_after_the_left_one(counts):
    np.testing.assert_array_equal(counts.guess(np.array([2, 2, 8]), np.array([4, 6, 8])), [3, 3, 2])


def test_a_draw_is_another_token_seen_there(counts):
    numbers = np.random.default_rng(0).random((500, 2))
    same = lambda value: np.full(500, value)
    assert set(counts.draw(same(2), same(3), same(4), numbers)) <= {5, 2, 3, 4, 6, 7, 8}
    assert (counts.draw(same(2), same(9), same(4), numbers) == 3).mean() == pytest.approx(2 / 3, abs=0.08)  # 3 twice, 5 once
    only = counts.draw(same(6), same(7), same(2), numbers)  # between 6 and 2 stands 7 alone, which is the token itself
    assert (only == 7).mean() < 0.2
