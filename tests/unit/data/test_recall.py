"""The generated tasks of memory are what they say."""

import numpy as np
import pytest

from attentif.data.builtin.memory_rows import IGNORED
from attentif.data.builtin.recall import associative_recall
from attentif.data.builtin.selective_copying import MARK, NOISE, make_selective_copying


def test_selective_copying_asks_for_the_symbols_in_their_order() -> None:
    tokens, targets = make_selective_copying(50, length=20, copied=5, symbols=4, seed=1)
    assert tokens.shape == targets.shape == (50, 25)
    assert (targets[:, :20] == IGNORED).all()
    assert (tokens[:, 20:] == MARK).all()
    for row, asked in zip(tokens, targets, strict=True):
        kept = row[:20][row[:20] != NOISE]
        assert kept.tolist() == asked[20:].tolist()
        assert set(kept) <= {2, 3, 4, 5}


def test_associative_recall_asks_for_the_value_of_each_key() -> None:
    tokens, targets = associative_recall(50, pairs=5, keys=9, values=3, seed=1)
    assert tokens.shape == targets.shape == (50, 15)
    assert (targets[:, :10] == IGNORED).all()
    for row, asked in zip(tokens, targets, strict=True):
        table = dict(zip(row[0:10:2].tolist(), row[1:10:2].tolist(), strict=True))
        assert len(table) == 5
        assert [table[key] for key in row[10:].tolist()] == asked[10:].tolist()
        assert set(table.values()) <= {9, 10, 11}


@pytest.mark.parametrize("task", [make_selective_copying, associative_recall])
def test_the_same_seed_gives_the_same_rows(task: object) -> None:
    first, again, other = task(5, seed=3), task(5, seed=3), task(5, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_too_many_to_place_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        make_selective_copying(1, length=2, copied=3)
    with pytest.raises(ValueError, match="keys"):
        associative_recall(1, pairs=3, keys=2)
