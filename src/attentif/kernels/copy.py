"""Array copies for compiled functions.

numba compiles `target[:] = source` with the formatting of its error message for different shapes, which takes three to six seconds of each
kernel's compilation. These loops do not check shapes.
"""

from typing import Any

from attentif.kernels.jit import inline


@inline
def copy_into(target: Any, source: Any) -> None:
    """target[:] = source, of one dimension."""
    for i in range(len(target)):
        target[i] = source[i]


@inline
def copy_rows_into(target: Any, source: Any) -> None:
    """target[:] = source, of two dimensions."""
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[i, j] = source[i, j]
