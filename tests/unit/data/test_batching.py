from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentif.data import padding_waste, plan

lengths_of = st.lists(st.integers(0, 60), max_size=120).map(lambda values: np.array(values, dtype=np.int64))


@settings(max_examples=200, deadline=None)
@given(lengths_of, st.integers(1, 100), st.booleans(), st.booleans())
def test_every_row_is_in_one_batch_and_no_batch_is_over_the_budget(lengths, budget, shuffle, packed):
    batches = plan(lengths, budget, seed=3, epoch=1, shuffle=shuffle, packed=packed)
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        sizes = lengths[batch]
        assert len(batch) == 1 or (sizes.sum() if packed else sizes.max() * len(batch)) <= budget


def same(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def test_the_plan_is_a_function_of_seed_and_epoch():
    lengths = np.random.default_rng(0).integers(1, 100, 500)
    assert same(plan(lengths, 512, seed=1, epoch=2), plan(lengths, 512, seed=1, epoch=2))
    assert not same(plan(lengths, 512, seed=1, epoch=2), plan(lengths, 512, seed=1, epoch=3))
    assert not same(plan(lengths, 512, seed=1, epoch=2), plan(lengths, 512, seed=2, epoch=2))


def test_rows_meet_others_in_the_next_epoch():
    lengths = np.full(1000, 10)
    company = [{frozenset(batch.tolist()) for batch in plan(lengths, 100, seed=0, epoch=epoch)} for epoch in (0, 1)]
    assert not company[0] & company[1]


def test_similar_lengths_go_together():
    lengths = np.random.default_rng(0).integers(1, 200, 5000)
    random = np.array_split(np.random.default_rng(1).permutation(5000), 250)
    assert padding_waste(lengths, plan(lengths, 2000, seed=0, epoch=0)) < 0.1 < 0.4 < padding_waste(lengths, random)


def test_without_shuffling_the_longest_come_first():
    assert [batch.tolist() for batch in plan(np.array([3, 9, 5]), 10, seed=0, epoch=0, shuffle=False)] == [[1], [2, 0]]


def test_batches_are_as_full_as_the_budget_allows():
    lengths = np.random.default_rng(0).integers(1, 50, 2000)
    packed = plan(lengths, 500, seed=0, epoch=0, packed=True)
    assert sum(lengths[batch].sum() < 450 for batch in packed) <= 1
    padded = plan(lengths, 500, seed=0, epoch=0, shuffle=False)
    for batch, after in pairwise(padded):
        assert (len(batch) + 1) * max(lengths[batch].max(), lengths[after[0]]) > 500


def test_padding_waste_is_the_share_of_padding():
    assert padding_waste(np.array([2, 4, 3]), [np.array([0, 1]), np.array([2])]) == pytest.approx(2 / 11)
    assert padding_waste(np.array([], dtype=np.int64), []) == 0


def test_a_budget_without_room_is_refused():
    with pytest.raises(ValueError, match="room for no token"):
        plan(np.array([1]), 0, seed=0, epoch=0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60), st.integers(1, 100), st.booleans())
def test_a_batch_of_pairs_pads_each_side_to_its_own_longest_within_the_budget(pairs, budget, packed):
    lengths = np.array(pairs, dtype=np.int64)
    batches = plan(lengths, budget, seed=3, epoch=1, packed=packed)
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        sizes = lengths[batch]
        assert len(batch) == 1 or (sizes.sum() if packed else sizes.max(0).sum() * len(batch)) <= budget


def test_pairs_are_sorted_by_both_sides():
    lengths = np.random.default_rng(0).integers(1, 40, (5000, 2))
    by_sum = plan(lengths.sum(1), 1000, seed=0, epoch=0)
    assert padding_waste(lengths, plan(lengths, 1000, seed=0, epoch=0)) < 0.15 < 0.3 < padding_waste(lengths, by_sum)


def test_padding_waste_of_pairs_counts_both_sides():
    assert padding_waste(np.array([[2, 1], [4, 3]]), [np.array([0, 1])]) == pytest.approx(4 / 14)
