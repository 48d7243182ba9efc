"""Linear maps of a few rows: y = x Wᵀ for a range of W's rows, in float32 or int8."""

import math
from typing import Any

import numpy as np

from attentif.kernels.exp import exp
from attentif.kernels.fused.machine import (
    BLOCK,
    BLOCK_BYTES,
    GROUP,
    as_bytes,
    as_floats,
    as_ints,
    byte_tile_1,
    byte_tile_2,
    byte_tile_4,
    float_tiles,
    half_tiles,
    subroutine,
)

NONE, RMS, LAYER = 0, 1, 2  # norms
RELU, GELU, GELU_TANH, SILU, SOFTPLUS, SIGMOID, RELU_SQUARED, TANH, DECAY = range(1, 10)  # activations; DECAY is RWKV-7's exp(−e^{−½} σ(x))


@subroutine
def normalise(kind: int, x: int, size: int, gain: int, shift: int, eps: float, y: int) -> None:
    """One row by its RMS or layer norm; `gain` and `shift` may be 0: none."""
    given, found = as_floats(x), as_floats(y)
    mean = np.float32(0)
    if kind == LAYER:
        for i in range(size):
            mean += given[i]
        mean /= np.float32(size)
    square = np.float32(0)
    for i in range(size):
        square += (given[i] - mean) * (given[i] - mean)
    factor = np.float32(1) / np.float32(math.sqrt(square / np.float32(size) + np.float32(eps)))
    if gain:
        gains = as_floats(gain)
        for i in range(size):
            found[i] = (given[i] - mean) * factor * gains[i]
    else:
        for i in range(size):
            found[i] = (given[i] - mean) * factor
    if shift:
        shifts = as_floats(shift)
        for i in range(size):
            found[i] += shifts[i]


@subroutine
def quantise(x: int, size: int, q: int, scales: int, offsets: int) -> None:
    """Quantise one row to int8: a scale per block of 32, and the block's sum times −128."""
    given, found, scale_of, offset_of = as_floats(x), as_bytes(q), as_floats(scales), as_ints(offsets)
    for block in range((size + BLOCK - 1) // BLOCK):
        begin, end = block * BLOCK, min((block + 1) * BLOCK, size)
        most = np.float32(0)
        for i in range(begin, end):
            most = max(most, abs(given[i]))
        scale_of[block] = most / np.float32(127)
        inverse = np.float32(127) / most if most > 0 else np.float32(0)
        total = np.int32(0)
        for i in range(begin, end):
            scaled = given[i] * inverse
            whole = np.int32(scaled + (np.float32(0.5) if scaled >= 0 else np.float32(-0.5)))
            found[i] = np.int8(whole)
            total += whole
        for i in range(end, begin + BLOCK):
            found[i] = 0
        offset_of[block] = -128 * total


def _multiplier(tiles: Any, size: int) -> Any:
    """The product of weights of so many bytes. What is left of an inner width beyond sixteens is for float32 alone."""
    tile_11, tile_14, tile_42, tile_43, tile_44 = tiles

    @subroutine
    def multiply(w: int, inner: int, x: int, x_stride: int, rows: int, start: int, stop: int, y: int, y_stride: int) -> None:
        """y[r, o − start] for o in [start, stop). One row reads W as one stream; several rows share what is read in tiles of 4 × 4."""
        steps = inner // 16
        row = 0
        while row < rows and steps > 0:
            some = min(rows - row, 4)
            given, target = x + 4 * row * x_stride, y + 4 * row * y_stride
            o = start
            if some > 1:
                while o + 4 <= stop:
                    begin, to = w + size * o * inner, target + 4 * (o - start)
                    if some == 4:
                        tile_44(begin, inner, given, x_stride, steps, to, y_stride)
                    elif some == 3:
                        tile_43(begin, inner, given, x_stride, steps, to, y_stride)
                    else:
                        tile_42(begin, inner, given, x_stride, steps, to, y_stride)
                    o += 4
            while o < stop:
                begin, to = w + size * o * inner, target + 4 * (o - start)
                if some == 4:
                    tile_14(begin, inner, given, x_stride, steps, to, y_stride)
                else:
                    for r in range(some):
                        tile_11(begin, inner, given + 4 * r * x_stride, x_stride, steps, to + 4 * r * y_stride, y_stride)
                o += 1
            row += some
        if steps * 16 == inner or size != 4:
            return
        for row in range(rows):
            given_row, found = as_floats(x + 4 * row * x_stride), as_floats(y + 4 * row * y_stride)
            for o in range(start, stop):
                weights = as_floats(w + 4 * o * inner)
                total = found[o - start] if steps > 0 else np.float32(0)
                for k in range(steps * 16, inner):
                    total += weights[k] * given_row[k]
                found[o - start] = total

    return multiply


multiply_floats = _multiplier(float_tiles, 4)
multiply_halves = _multiplier(half_tiles, 2)


@subroutine
def multiply_bytes(
    w: int, blocks: int, q: int, q_stride: int, scales: int, offsets: int, rows: int, start: int, stop: int, y: int, y_stride: int
) -> None:
    """The same from int8; `start` is a multiple of 16, and whole groups of 16 are written."""
    for group in range(start // GROUP, (stop + GROUP - 1) // GROUP):
        begin, to = w + group * blocks * BLOCK_BYTES, y + 4 * (group * GROUP - start)
        row = 0
        while row < rows:
            given, place, target = q + row * q_stride, 4 * row * blocks, to + 4 * row * y_stride
            if row + 4 <= rows:
                byte_tile_4(begin, blocks, given, q_stride, scales + place, offsets + place, blocks, target, y_stride)
                row += 4
            elif row + 2 <= rows:
                byte_tile_2(begin, blocks, given, q_stride, scales + place, offsets + place, blocks, target, y_stride)
                row += 2
            else:
                byte_tile_1(begin, blocks, given, q_stride, scales + place, offsets + place, blocks, target, y_stride)
                row += 1


@subroutine
def activate(kind: int, x: int, size: int) -> None:
    """A non-linearity, in place."""
    one, two, half = np.float32(1), np.float32(2), np.float32(0.5)
    values = as_floats(x)
    if kind == RELU:
        for i in range(size):
            values[i] = max(values[i], np.float32(0))
    elif kind == GELU:
        for i in range(size):
            values[i] = half * values[i] * (one + np.float32(math.erf(values[i] * np.float32(0.7071067811865476))))
    elif kind == GELU_TANH:
        for i in range(size):
            v = values[i]
            inner = np.float32(0.7978845608028654) * (v + np.float32(0.044715) * v * v * v)
            values[i] = v - v / (exp(two * min(inner, np.float32(20))) + one)
    elif kind == SILU:
        for i in range(size):
            values[i] = values[i] / (one + exp(min(-values[i], np.float32(80))))
    elif kind == SOFTPLUS:
        for i in range(size):
            values[i] = np.float32(math.log1p(math.exp(values[i]))) if values[i] < np.float32(20) else values[i]
    elif kind == SIGMOID:
        for i in range(size):
            values[i] = one / (one + exp(min(-values[i], np.float32(80))))
    elif kind == RELU_SQUARED:
        for i in range(size):
            v = max(values[i], np.float32(0))
            values[i] = v * v
    elif kind == TANH:
        for i in range(size):
            values[i] = np.float32(math.tanh(values[i]))
    elif kind == DECAY:
        for i in range(size):
            values[i] = exp(np.float32(-0.6065306597126334) / (one + exp(min(-values[i], np.float32(80)))))
