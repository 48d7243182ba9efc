"""One array into another, for compiled functions.

numba compiles `target[:] = source` together with the message that it would raise for two shapes: strings, joined and written out, which
took three to six seconds of every kernel's compilation, half of Mamba's. These loops have nothing to say; shapes are the caller's business.
"""

from typing import Any

from attentif.kernels.jit import inlined


@inlined
def put(target: Any, source: Any) -> None:
    """target[:] = source, of one dimension."""
    for i in range(len(target)):
        target[i] = source[i]


@inlined
def put_rows(target: Any, source: Any) -> None:
    """target[:] = source, of two dimensions."""
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[i, j] = source[i, j]
