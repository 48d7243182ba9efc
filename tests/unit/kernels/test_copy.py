"""One array into another inside compiled functions: only the target's places, whatever lies beside them."""

import numpy as np

from attentif.kernels.copy import copy_into, copy_rows_into
from attentif.kernels.jit import jit


@jit()
def _copy(row: np.ndarray, table: np.ndarray, source: np.ndarray) -> None:
    copy_into(row[1:3], source[0])
    copy_rows_into(table[:, 1:3], source)


def test_the_target_says_how_much_is_taken() -> None:
    row, table, source = np.zeros(4), np.zeros((2, 4)), np.arange(1.0, 13.0).reshape(3, 4)
    _copy(row, table, source)
    assert row.tolist() == [0, 1, 2, 0]
    assert table.tolist() == [[0, 1, 2, 0], [0, 5, 6, 0]]
