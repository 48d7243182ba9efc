"""The GRU over whole sequences.

`cells.py` has the equation of a step and the names; `recurrence.py` says how sequences lie in a table of positions. Backwards, with g the
gradient that reaches h_t (from the output and from step t + 1) and u = U_n h⁻ + v, which the reset gate multiplies:

    ∂n = g (1 - z) tanh'(n)                ∂z = g (h⁻ - n) σ'(z)                 ∂r = ∂n u σ'(r)
    g⁻ = g z + Uᵀ [∂r ∂z r∂n]              ∂v = Σ_t r∂n                          ∂U = Σ_t [∂r ∂z r∂n] h_{t-1}ᵀ, at the end
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.cells import gru_step
from attentif.kernels.copy import copy_into
from attentif.kernels.jit import Array, jit
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.recurrence import add_to, before, bend, count_running, split_sequences, squash, sum_of, table, unroll
from attentif.kernels.tile import multiply, panels, round_up_rows


def gru_naive(gates: Tensor, h0: Tensor, w_h: Tensor, b_h: Tensor, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The equation: outputs (M, N), and the last one (B, N) of each sequence."""
    y, h = unroll(partial(_step, w_h=w_h, b_h=b_h), gates, (h0,), begin, lengths)
    return y, h


def gru(gates: Tensor, h0: Tensor, w_h: Tensor, b_h: Tensor, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The same, compiled; other devices step one token at a time."""
    if not gates.is_cpu:
        return gru_naive(gates, h0, w_h, b_h, begin, lengths)
    y, h, _ = _states(*(t.contiguous() for t in (gates, h0, w_h, b_h)), begin, lengths)
    return y, h


def _step(gates: Tensor, h: Tensor, w_h: Tensor, b_h: Tensor) -> tuple[Tensor]:
    return (gru_step(gates, h, w_h, b_h),)


def _fake_states(gates: Tensor, h0: Tensor, *_: Any) -> tuple[Tensor, ...]:
    M, N = len(gates), h0.shape[1]
    return gates.new_empty(M, N), torch.empty_like(h0), gates.new_empty(M, 4 * N)


@operation("gru", fake=_fake_states)
def _states(gates: Tensor, h0: Tensor, w_h: Tensor, b_h: Tensor, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    h, N = h0.clone(), h0.shape[1]
    y, active = table(gates, N, lengths), gates.new_empty(len(gates), 4 * N)
    split_sequences(_gru_forward, begin, lengths, gates, panels(w_h.detach().T), b_h, h0, active, y, h)
    return y, h, active


def _fake_gradients(active: Tensor, earlier: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
    M, N = earlier.shape
    return active.new_empty(M, 3 * N), *empty_like(earlier, given[-1])


@operation("gru_backward", fake=_fake_gradients)
def _gradients(
    active: Tensor, earlier: Tensor, w_h: Tensor, begin: Tensor, lengths: Tensor, dy: Tensor, dh: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    N = earlier.shape[1]
    dgates, dreset, dh0 = table(active, 3 * N, lengths), table(active, N, lengths), dh.clone()
    split_sequences(_gru_backward, begin, lengths, active, earlier, panels(w_h.detach()), dy, dgates, dreset, dh0)
    return dgates, dreset, dh0


def _backpropagate(
    y: Tensor, active: Tensor, h0: Tensor, w_h: Tensor, begin: Tensor, lengths: Tensor, dy: Tensor, dh: Tensor
) -> tuple[Any, ...]:
    earlier = before(y, h0, begin, lengths)
    dgates, dreset, dh0 = _gradients(active, earlier, w_h, begin, lengths, dy, dh)
    return dgates, dh0, lambda: torch.cat([dgates[:, : 2 * y.shape[1]].T @ earlier, dreset.T @ earlier]), lambda: dreset.sum(0)


differentiate(
    _states,
    _backpropagate,
    save=lambda gates, h0, w_h, b_h, begin, lengths, y, h, active: (y, active, h0, w_h, begin, lengths),
    outputs=2,
)


@jit(fastmath={"contract"})
def _gru_forward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, gates: Array, w: Array, b_h: Array, h0: Array,
    active: Array, y: Array, h_last: Array
) -> None:  # fmt: skip
    N = h0.shape[1]
    for part in range(start, stop):
        rows = order[part::parts]
        h = np.zeros((round_up_rows(len(rows)), N), gates.dtype)
        total = np.empty((len(h), w.shape[0] * w.shape[2]), gates.dtype)
        for r, row in enumerate(rows):
            copy_into(h[r], h0[row])
        count = len(rows)
        for t in range(lengths[rows[0]]):
            count = count_running(t, rows, lengths, count)
            multiply(count, h, w, total)
            for r in range(count):
                m = begin[rows[r]] + t
                s, now, own = active[m], gates[m], h[r]
                sum_of(s[: 2 * N], total[r, : 2 * N], now[: 2 * N])
                squash(s[: 2 * N])
                reset, z, n, u = s[:N], s[N : 2 * N], s[2 * N : 3 * N], s[3 * N :]
                sum_of(u, total[r, 2 * N : 3 * N], b_h)
                candidate = now[2 * N :]
                for j in range(N):
                    n[j] = candidate[j] + reset[j] * u[j]
                bend(n)
                for j in range(N):
                    own[j] = n[j] + z[j] * (own[j] - n[j])
                copy_into(y[m], own)
        for row in rows:
            copy_into(h_last[row], y[begin[row] + lengths[row] - 1])


@jit(fastmath={"contract"})
def _gru_backward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, active: Array, earlier: Array, w: Array,
    dy: Array, dgates: Array, dreset: Array, dh0: Array
) -> None:  # fmt: skip
    N = earlier.shape[1]
    for part in range(start, stop):
        rows = order[part::parts]
        d = np.zeros((round_up_rows(len(rows)), 3 * N), active.dtype)
        back = np.empty((len(d), w.shape[0] * w.shape[2]), active.dtype)  # what step t + 1 gives to h_t
        for t in range(lengths[rows[0]] - 1, -1, -1):
            count = count_running(t, rows, lengths, len(rows))
            for r in range(count):
                row = rows[r]
                m = begin[row] + t
                own = dh0[row]  # holds the gradient of h_t without its way through U
                if t < lengths[row] - 1:
                    add_to(own, back[r, :N])
                add_to(own, dy[m])
                s, h, out = active[m], earlier[m], dgates[m]
                reset, z, n, u = s[:N], s[N : 2 * N], s[2 * N : 3 * N], s[3 * N :]
                dr, dz, dn = out[:N], out[N : 2 * N], out[2 * N :]
                for j in range(N):
                    dz[j] = own[j] * (h[j] - n[j]) * (z[j] - z[j] * z[j])
                for j in range(N):
                    g = own[j] - own[j] * z[j]
                    dn[j] = g - g * n[j] * n[j]
                for j in range(N):
                    dr[j] = dn[j] * u[j] * (reset[j] - reset[j] * reset[j])
                through = d[r, 2 * N :]
                for j in range(N):
                    through[j] = dn[j] * reset[j]
                for j in range(N):
                    own[j] *= z[j]
                copy_into(d[r, : 2 * N], out)
                copy_into(dreset[m], through)
            multiply(count, d, w, back)
        for r, row in enumerate(rows):
            add_to(dh0[row], back[r, :N])
