"""Int8 linear maps of many rows, for prompts and encoders."""

import numpy as np
from torch import Tensor

from attentif.kernels.fused.machine import OPTIONS, as_floats
from attentif.kernels.fused.products import multiply_bytes, quantise
from attentif.kernels.jit import Array, jit, parallel_for

ROWS, CHUNK = 64, 128  # rows and outputs of a piece: its inputs and sums stay in the second-level cache


def multiply_rows(x: Tensor, packed: Tensor, bias: Tensor | None, y: Tensor) -> None:
    """y (R, O) = x (R, I) Wᵀ + b, with x quantised by blocks of 32."""
    rows, blocks = len(x), packed.shape[1]
    q = np.empty((rows, 32 * blocks), np.int8)
    scales, offsets = np.empty((rows, blocks), np.float32), np.empty((rows, blocks), np.int32)
    parallel_for(_quantise_rows, rows, x.numpy(), q, scales, offsets)
    pieces = -(-rows // ROWS) * -(-y.shape[1] // CHUNK)
    given = np.zeros(0, np.float32) if bias is None else bias.detach().numpy()
    parallel_for(_multiply_rows, pieces, packed.numpy(), q, scales, offsets, given, y.numpy())


@jit(**OPTIONS)
def _quantise_rows(start: int, stop: int, x: Array, q: Array, scales: Array, offsets: Array) -> None:
    for row in range(start, stop):
        quantise(x[row].ctypes.data, x.shape[1], q[row].ctypes.data, scales[row].ctypes.data, offsets[row].ctypes.data)


@jit(**OPTIONS)
def _multiply_rows(start: int, stop: int, packed: Array, q: Array, scales: Array, offsets: Array, bias: Array, y: Array) -> None:
    rows, outputs = y.shape
    blocks = packed.shape[1]
    few = (rows + ROWS - 1) // ROWS
    sums = np.empty((ROWS, CHUNK), np.float32)
    for piece in range(start, stop):
        first, begin = piece % few * ROWS, piece // few * CHUNK
        count, end = min(ROWS, rows - first), min(begin + CHUNK, outputs)
        multiply_bytes(
            packed.ctypes.data,
            blocks,
            q[first].ctypes.data,
            32 * blocks,
            scales[first].ctypes.data,
            offsets[first].ctypes.data,
            count,
            begin,
            end,
            sums.ctypes.data,
            CHUNK,
        )
        for row in range(count):
            found, target = sums[row], as_floats(y[first + row].ctypes.data + 4 * begin)
            for i in range(end - begin):
                target[i] = found[i] + bias[begin + i] if len(bias) else found[i]
