import numpy as np
import torch

from attentif.tasks.ragged import Ragged

ROWS = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6])]


def test_padded_and_packed_hold_the_chosen_rows_in_order() -> None:
    ragged = Ragged.of(ROWS)
    assert ragged.values([2, 0], packed=False, fill=9).tolist() == [[5, 6, 9], [1, 2, 3]]
    assert ragged.values([2, 0], packed=True, fill=9).tolist() == [5, 6, 1, 2, 3]


def test_inputs_say_where_each_sequence_ends() -> None:
    ragged = Ragged.of(ROWS)
    padded, packed = (ragged.input([1, 2], packed=side, pad=0) for side in (False, True))
    assert padded.seq.valid.tolist() == [[True, False], [True, True]]
    assert packed.seq.cu is not None
    assert packed.seq.cu.tolist() == [0, 1, 3]
    assert torch.equal(padded.data[padded.seq.valid], packed.data)


def test_trimmed_rows_lose_their_ends_without_a_copy() -> None:
    ragged = Ragged.of([np.array([7, 1, 2, 8]), np.array([7, 3, 8])])
    assert ragged.trim(last=1).values([0, 1], packed=True, fill=0).tolist() == [7, 1, 2, 7, 3]
    assert ragged.trim(first=1).values([0, 1], packed=False, fill=-100).tolist() == [[1, 2, 8], [3, 8, -100]]
    assert ragged.trim(first=1).flat is ragged.flat
