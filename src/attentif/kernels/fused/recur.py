"""One step of recurrences: LSTM, GRU, Mamba's convolution and scan, RWKV-4's shift and mean.

Each works on some channels of one row.
"""

import math
from typing import Any

import numpy as np

from attentif.kernels.exp import exp
from attentif.kernels.fused.machine import as_floats, subroutine

LSTM, GRU = 0, 1


@subroutine
def squash(x: Any) -> Any:
    """σ(x)."""
    return np.float32(1) / (np.float32(1) + exp(min(-x, np.float32(80))))


@subroutine
def step_cell(f: Any, row: int, start: int, stop: int, slots: Any) -> None:
    """Units `start` … `stop` of a cell; see `program.CELL` for the fields of the instruction."""
    size = f[3]
    given, held = as_floats(f[1] + 4 * row * f[2]), as_floats(f[5] + 4 * row * f[6])
    y, h = as_floats(f[7] + 4 * row * f[8]), as_floats(slots[f[10], row])
    if f[4] == GRU:
        bias = as_floats(f[9])
        for i in range(start, stop):
            r = squash(given[i] + held[i])
            z = squash(given[size + i] + held[size + i])
            n = np.float32(math.tanh(given[2 * size + i] + r * (held[2 * size + i] + bias[i])))
            h[i] = n + z * (h[i] - n)
            y[i] = h[i]
        return
    c = as_floats(slots[f[11], row])
    for i in range(start, stop):
        a, b = given[i] + held[i], given[size + i] + held[size + i]
        o = given[3 * size + i] + held[3 * size + i]
        if f[9]:
            peepholes = as_floats(f[9])
            a += peepholes[i] * c[i]
            b += peepholes[size + i] * c[i]
        cell = squash(b) * c[i] + squash(a) * np.float32(math.tanh(given[2 * size + i] + held[2 * size + i]))
        if f[9]:
            peepholes = as_floats(f[9])
            o += peepholes[2 * size + i] * cell
        c[i] = cell
        h[i] = squash(o) * np.float32(math.tanh(cell))
        y[i] = h[i]


@subroutine
def step_conv(f: Any, row: int, start: int, stop: int, slots: Any) -> None:
    """silu(b + Σ_k w_k ⊙ x_{t−k}) of some channels, and the next tail; see `program.CONV`."""
    channels, taps = f[3], f[6]
    x, y = as_floats(f[1] + 4 * row * f[2]), as_floats(f[7] + 4 * row * f[8])
    tail, last = as_floats(slots[f[10], row]), as_floats(f[4] + 4 * (taps - 1) * channels)
    for i in range(start, stop):
        y[i] = last[i] * x[i]
    for k in range(taps - 1):
        weight, old = as_floats(f[4] + 4 * k * channels), as_floats(slots[f[10], row] + 4 * k * channels)
        for i in range(start, stop):
            y[i] += weight[i] * old[i]
    for k in range(taps - 2):
        for i in range(start, stop):
            tail[k * channels + i] = tail[(k + 1) * channels + i]
    if taps > 1:
        for i in range(start, stop):
            tail[(taps - 2) * channels + i] = x[i]
    if f[5]:
        bias = as_floats(f[5])
        for i in range(start, stop):
            y[i] += bias[i]
    for i in range(start, stop):
        y[i] = y[i] * squash(y[i])


@subroutine
def step_scan(f: Any, row: int, start: int, stop: int, slots: Any) -> None:
    """h = exp(Δ A) ⊙ h + (Δ u) B,  y = (C h + D ⊙ u) ⊙ silu(z) of some channels; see `program.SCAN`."""
    channels, states = f[3], f[6]
    u, delta = as_floats(f[1] + 4 * row * f[2]), as_floats(f[7] + 4 * row * f[8])
    z, y, skip = as_floats(f[9] + 4 * row * f[11]), as_floats(f[14] + 4 * row * f[15]), as_floats(f[5])
    written, read = as_floats(f[12] + 4 * row * f[13]), as_floats(f[12] + 4 * (row * f[13] + states))
    for i in range(start, stop):
        y[i] = skip[i] * u[i]
    for s in range(states):
        rate, h = as_floats(f[4] + 4 * s * channels), as_floats(slots[f[10], row] + 4 * s * channels)
        b, c = written[s], read[s]
        for i in range(start, stop):
            h[i] = exp(delta[i] * rate[i]) * h[i] + delta[i] * u[i] * b
            y[i] += c * h[i]
    for i in range(start, stop):
        y[i] *= z[i] * squash(z[i])


@subroutine
def step_shift(f: Any, row: int, start: int, stop: int, slots: Any) -> None:
    """Mixes of a token with the one before, each by its own shares; see `program.SHIFT`."""
    x, last = as_floats(f[1] + 4 * row * f[2]), as_floats(slots[f[10], row])
    for number in range(f[4]):
        field = 12 + 3 * number
        share, y = as_floats(f[field]), as_floats(f[field + 1] + 4 * row * f[field + 2])
        for i in range(start, stop):
            y[i] = last[i] + share[i] * (x[i] - last[i])
    for i in range(start, stop):
        last[i] = x[i]


@subroutine
def step_wkv(f: Any, row: int, start: int, stop: int, slots: Any) -> None:
    """y = r ⊙ wkv of some channels, in log space (`kernels/wkv.py`); see `program.WKV`."""
    k, v = as_floats(f[1] + 4 * row * f[2]), as_floats(f[6] + 4 * row * f[7])
    gate, y = as_floats(f[8] + 4 * row * f[9]), as_floats(f[13] + 4 * row * f[14])
    decay, bonus = as_floats(f[4]), as_floats(f[5])
    p, q, o = as_floats(slots[f[10], row]), as_floats(slots[f[11], row]), as_floats(slots[f[12], row])
    for i in range(start, stop):
        top = max(o[i], bonus[i] + k[i])
        old, now = exp(o[i] - top), exp(bonus[i] + k[i] - top)
        y[i] = gate[i] * (old * p[i] + now * v[i]) / (old * q[i] + now)
        top = max(o[i] - decay[i], k[i])
        old, now = exp(o[i] - decay[i] - top), exp(k[i] - top)
        p[i] = old * p[i] + now * v[i]
        q[i] = old * q[i] + now
        o[i] = top


@subroutine
def multiply_channels(f: Any, r: Any, row: int, start: int, stop: int) -> None:
    """The product of two buffers, stored or added; see `program.MULTIPLY`."""
    a, b, y = as_floats(f[1] + 4 * row * f[2]), as_floats(f[4] + 4 * row * f[5]), as_floats(f[7] + 4 * row * f[8])
    weight = np.float32(r[1])
    for i in range(start, stop):
        y[i] = (y[i] if f[9] else np.float32(0)) + weight * a[i] * b[i]
