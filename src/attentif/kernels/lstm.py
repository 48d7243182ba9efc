"""The LSTM over whole sequences, with or without peepholes.

`cells.py` has the equation of a step and the names; `recurrence.py` says how sequences lie in a table of positions. Backwards, with
g_h and g_c the gradients that reach h_t and c_t (from the output and from step t + 1) and s = tanh c_t:

    ∂o = g_h s σ'(o)                       g_c += g_h σ(o) (1 - s²) + p_o ∂o
    ∂i = g_c tanh(g) σ'(i)                 ∂f = g_c c⁻ σ'(f)                     ∂g = g_c σ(i) tanh'(g)
    g_h⁻ = Uᵀ [∂i ∂f ∂g ∂o]                g_c⁻ = g_c σ(f) + p_i ∂i + p_f ∂f     ∂U = Σ_t ∂_t h_{t-1}ᵀ, one product at the end
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.cells import lstm_step
from attentif.kernels.copy import copy_into
from attentif.kernels.jit import Array, jit
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.recurrence import (
    add_product,
    add_to,
    before,
    bend,
    count_running,
    split_sequences,
    squash,
    sum_of,
    table,
    tanh_of,
    unroll,
)
from attentif.kernels.tile import multiply, panels, round_up_rows


def lstm_naive(
    gates: Tensor, h0: Tensor, c0: Tensor, w_h: Tensor, peepholes: Tensor | None, begin: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The equation: outputs (M, N), and the last output and cell (B, N) of each sequence."""
    y, h, c = unroll(partial(_step, w_h=w_h, peepholes=peepholes), gates, (h0, c0), begin, lengths)
    return y, h, c


def lstm(
    gates: Tensor, h0: Tensor, c0: Tensor, w_h: Tensor, peepholes: Tensor | None, begin: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same, compiled; other devices step one token at a time."""
    if not gates.is_cpu:
        return lstm_naive(gates, h0, c0, w_h, peepholes, begin, lengths)
    inputs = (t.contiguous() for t in (gates, h0, c0, w_h))
    y, h, c, _, _ = _states(*inputs, None if peepholes is None else peepholes.contiguous(), begin, lengths)
    return y, h, c


def _step(gates: Tensor, h: Tensor, c: Tensor, w_h: Tensor, peepholes: Tensor | None) -> tuple[Tensor, Tensor]:
    return lstm_step(gates, h, c, w_h, peepholes)


def _fake_states(gates: Tensor, h0: Tensor, c0: Tensor, *_: Any) -> tuple[Tensor, ...]:
    y = gates.new_empty(len(gates), h0.shape[1])
    return y, *empty_like(h0, c0, gates, y)


@operation("lstm", fake=_fake_states)
def _states(
    gates: Tensor, h0: Tensor, c0: Tensor, w_h: Tensor, peepholes: Tensor | None, begin: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    h, c = h0.clone(), c0.clone()
    y = table(gates, h.shape[1], lengths)
    active, cells = empty_like(gates, y)
    p = gates.new_empty(0, 0) if peepholes is None else peepholes
    split_sequences(_lstm_forward, begin, lengths, gates, panels(w_h.detach().T), p, h0, c0, active, cells, y, h, c)
    return y, h, c, active, cells


def _fake_gradients(active: Tensor, cells: Tensor, c0: Tensor, w_h: Tensor, peepholes: Tensor | None, *_: Any) -> tuple[Tensor, ...]:
    return empty_like(active, c0, c0, active.new_empty(0, 0) if peepholes is None else peepholes)


@operation("lstm_backward", fake=_fake_gradients)
def _gradients(
    active: Tensor, cells: Tensor, c0: Tensor, w_h: Tensor, peepholes: Tensor | None, begin: Tensor, lengths: Tensor, g: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dgates, (dy, dh, dc) = table(active, active.shape[1], lengths), g
    dh0, dc0 = dh.clone(), dc.clone()
    p = active.new_empty(0, 0) if peepholes is None else peepholes
    dp = active.new_zeros(torch.get_num_threads(), *p.shape)
    split_sequences(_lstm_backward, begin, lengths, active, cells, c0, panels(w_h.detach()), p, dy, dh, dgates, dh0, dc0, dp)
    return dgates, dh0, dc0, dp.sum(0)


def _backpropagate(y: Tensor, h0: Tensor, *given: Any) -> tuple[Any, ...]:
    *saved, begin, lengths, dy, dh, dc = given
    dgates, dh0, dc0, dp = _gradients(*saved, begin, lengths, [dy, dh, dc])
    return dgates, dh0, dc0, lambda: dgates.T @ before(y, h0, begin, lengths), dp


differentiate(
    _states,
    _backpropagate,
    save=lambda gates, h0, c0, w_h, p, begin, lengths, y, h, c, active, cells: (y, h0, active, cells, c0, w_h, p, begin, lengths),
    outputs=3,
)


@jit(fastmath={"contract"})
def _lstm_forward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, gates: Array, w: Array, peepholes: Array,
    h0: Array, c0: Array, active: Array, cells: Array, y: Array, h_last: Array, c_last: Array
) -> None:  # fmt: skip
    N = h0.shape[1]
    for part in range(start, stop):
        rows = order[part::parts]
        h = np.zeros((round_up_rows(len(rows)), N), gates.dtype)
        c = np.empty((len(rows), N), gates.dtype)
        total = np.empty((len(h), w.shape[0] * w.shape[2]), gates.dtype)
        for r, row in enumerate(rows):
            copy_into(h[r], h0[row])
            copy_into(c[r], c0[row])
        count = len(rows)
        for t in range(lengths[rows[0]]):
            count = count_running(t, rows, lengths, count)
            multiply(count, h, w, total)
            for r in range(count):
                m = begin[rows[r]] + t
                s, cell = active[m], c[r]
                sum_of(s, total[r, : 4 * N], gates[m])
                if len(peepholes):
                    add_product(s[:N], peepholes[0], cell)
                    add_product(s[N : 2 * N], peepholes[1], cell)
                squash(s[: 2 * N])
                i, f, g, o = s[:N], s[N : 2 * N], s[2 * N : 3 * N], s[3 * N :]
                bend(g)
                for j in range(N):
                    cell[j] = f[j] * cell[j] + i[j] * g[j]
                if len(peepholes):
                    add_product(o, peepholes[2], cell)
                squash(o)
                tanh_of(h[r], cell)
                for j in range(N):
                    h[r, j] *= o[j]
                copy_into(cells[m], cell)
                copy_into(y[m], h[r])
        for r, row in enumerate(rows):
            copy_into(h_last[row], y[begin[row] + lengths[row] - 1])
            copy_into(c_last[row], c[r])


@jit(fastmath={"contract"})
def _lstm_backward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, active: Array, cells: Array, c0: Array,
    w: Array, peepholes: Array, dy: Array, dh_last: Array, dgates: Array, dh0: Array, dc0: Array, dp: Array
) -> None:  # fmt: skip
    N = c0.shape[1]
    tanh_c = np.empty(N, active.dtype)
    for part in range(start, stop):
        rows = order[part::parts]
        d = np.zeros((round_up_rows(len(rows)), 4 * N), active.dtype)
        back = np.empty((len(d), w.shape[0] * w.shape[2]), active.dtype)  # what step t + 1 gives to h_t
        for t in range(lengths[rows[0]] - 1, -1, -1):
            count = count_running(t, rows, lengths, len(rows))
            for r in range(count):
                row = rows[r]
                m = begin[row] + t
                c, c_before, dc = cells[m], cells[m - 1] if t else c0[row], dc0[row]
                i, f, g, o = active[m, :N], active[m, N : 2 * N], active[m, 2 * N : 3 * N], active[m, 3 * N :]
                di, df, dg, do = d[r, :N], d[r, N : 2 * N], d[r, 2 * N : 3 * N], d[r, 3 * N :]
                dh = back[r, :N]
                if t == lengths[row] - 1:
                    copy_into(dh, dh_last[row])
                add_to(dh, dy[m])
                tanh_of(tanh_c, c)
                for j in range(N):
                    dc[j] += dh[j] * (o[j] - o[j] * tanh_c[j] * tanh_c[j])
                for j in range(N):
                    do[j] = dh[j] * tanh_c[j] * (o[j] - o[j] * o[j])
                if len(peepholes):
                    add_product(dc, peepholes[2], do)
                for j in range(N):
                    di[j] = dc[j] * g[j] * (i[j] - i[j] * i[j])
                for j in range(N):
                    df[j] = dc[j] * c_before[j] * (f[j] - f[j] * f[j])
                for j in range(N):
                    dg[j] = dc[j] * (i[j] - i[j] * g[j] * g[j])
                for j in range(N):
                    dc[j] *= f[j]
                if len(peepholes):
                    add_product(dc, peepholes[0], di)
                    add_product(dc, peepholes[1], df)
                    add_product(dp[part, 0], di, c_before)
                    add_product(dp[part, 1], df, c_before)
                    add_product(dp[part, 2], do, c)
                copy_into(dgates[m], d[r])
            multiply(count, d, w, back)
        for r, row in enumerate(rows):
            copy_into(dh0[row], back[r])
