"""Positions as numbers on the scores, and who may look at whom."""

import pytest
import torch
from pydantic import ValidationError

from attentif.nn.bias import ALiBiConfig, RelativeConfig, RelativePlaneConfig, RoundedALiBiConfig
from attentif.nn.pattern import GlobalPattern, WindowPattern, compute_batch_mask, compute_mask
from attentif.nn.seq import Seq


def test_alibi_is_a_penalty_that_grows_with_the_distance_on_both_sides() -> None:
    bias = ALiBiConfig(heads=2).build()(torch.arange(3), torch.arange(3))
    assert bias[0].tolist() == [[0, -1 / 16, -2 / 16], [-1 / 16, 0, -1 / 16], [-2 / 16, -1 / 16, 0]]
    assert bias[1].tolist() == (bias[0] / 16).tolist()


def test_biases_take_a_row_of_places_for_all_or_one_for_each() -> None:
    for config in (ALiBiConfig(heads=4), RoundedALiBiConfig(heads=4), RelativeConfig(heads=4)):
        module, q, k = config.build(), torch.tensor([[5, 6], [1, 2]]), torch.arange(7)
        bias = module(q, k)
        assert bias.shape == (2, 4, 2, 7)
        assert torch.equal(bias[1], module(q[1], k))


def test_relative_buckets_are_exact_near_and_shared_far_away() -> None:
    module = RelativeConfig(heads=1, buckets=8, max_distance=16).build()
    assert module.bucket(torch.tensor([0, -1, 1])).tolist() == [0, 1, 5]
    assert module.bucket(torch.tensor([-100, -16, 100])).tolist() == [3, 3, 7]
    causal = RelativeConfig(heads=1, buckets=8, max_distance=16, bidirectional=False).build()
    assert causal.bucket(torch.tensor([0, -1, -2, -3, 5, 99])).tolist() == [0, 1, 2, 3, 0, 0]


@pytest.mark.parametrize(
    ("values", "message"),
    [({"buckets": 5}, "even"), ({"buckets": 2}, "at least 4"), ({"max_distance": 8}, "must exceed the 8 exact")],
)
def test_buckets_that_cannot_be_shared_out_are_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RelativeConfig(heads=1, **values)


def test_a_pattern_is_the_union_of_its_entries() -> None:
    pos = torch.arange(6)[None]
    seen = compute_mask([WindowPattern(left=1), GlobalPattern(at=(4,))], False, pos, pos)
    assert seen is not None
    assert seen[0, 0].int().tolist() == [
        [1, 0, 0, 0, 1, 0],
        [1, 1, 0, 0, 1, 0],
        [0, 1, 1, 0, 1, 0],
        [0, 0, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 1, 1],
    ]


def test_a_mask_is_made_once_for_rows_that_share_their_places() -> None:
    dense = compute_batch_mask([WindowPattern(left=1)], True, Seq.from_padded([5, 5, 5]))
    assert dense is not None
    assert dense.shape == (1, 1, 5, 5)
    assert compute_batch_mask([], False, Seq.from_padded([5, 5])) is None
    ragged = compute_batch_mask([], False, Seq.from_padded([5, 2]))
    assert ragged is not None
    assert ragged[:, 0, 0].tolist() == [[True] * 5, [True, True, False, False, False]]


def test_relative_biases_of_patches_follow_rows_columns_and_the_class_token() -> None:
    """Pair by pair: an entry of the table for each offset, and three with the class token."""
    rows, columns = 2, 3
    module = RelativePlaneConfig(heads=2, rows=rows, columns=columns).build()
    places = torch.arange(1 + rows * columns)
    found, table = module(places, places), module.table.weight
    offsets = (2 * rows - 1) * (2 * columns - 1)
    assert len(table) == offsets + 3
    for q in range(1 + rows * columns):
        for k in range(1 + rows * columns):
            if q == 0 or k == 0:
                expected = table[offsets + (2 if q == k else 0 if q == 0 else 1)]
            else:
                down, across = (q - 1) // columns - (k - 1) // columns, (q - 1) % columns - (k - 1) % columns
                expected = table[(down + rows - 1) * (2 * columns - 1) + across + columns - 1]
            assert torch.equal(found[:, q, k], expected)
