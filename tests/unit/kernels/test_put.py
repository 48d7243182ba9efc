"""One array into another inside compiled functions: only the target's places, whatever lies beside them."""

import numpy as np

from attentif.kernels.jit import compiled
from attentif.kernels.put import put, put_rows


@compiled()
def _copy(row: np.ndarray, table: np.ndarray, source: np.ndarray) -> None:
    put(row[1:3], source[0])
    put_rows(table[:, 1:3], source)


def test_the_target_says_how_much_is_taken() -> None:
    row, table, source = np.zeros(4), np.zeros((2, 4)), np.arange(1.0, 13.0).reshape(3, 4)
    _copy(row, table, source)
    assert row.tolist() == [0, 1, 2, 0]
    assert table.tolist() == [[0, 1, 2, 0], [0, 5, 6, 0]]
