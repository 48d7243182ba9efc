"""The plain recurrent network over whole sequences.

`cells.py` has the equation of a step and the names; `recurrence.py` says how sequences lie in a table of positions. Backwards, with g the
gradient that reaches h_t (from the output and from step t + 1):

    ∂_t = g φ'                             φ' = 1 - h² (tanh), or 1 where h > 0 (ReLU)
    g⁻ = Uᵀ ∂_t                            ∂U = Σ_t ∂_t h_{t-1}ᵀ, one product at the end
"""

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from attentif.kernels.cells import Activation, rnn_step
from attentif.kernels.copy import copy_into
from attentif.kernels.jit import Array, jit
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.recurrence import add_to, before, count_running, split_sequences, table, tanh_of, unroll
from attentif.kernels.tile import multiply, panels, round_up_rows


def rnn_naive(gates: Tensor, h0: Tensor, w_h: Tensor, activation: Activation, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The equation: outputs (M, N), and the last one (B, N) of each sequence."""
    y, h = unroll(partial(_step, w_h=w_h, activation=activation), gates, (h0,), begin, lengths)
    return y, h


def rnn(gates: Tensor, h0: Tensor, w_h: Tensor, activation: Activation, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The same, compiled; other devices step one token at a time."""
    if not gates.is_cpu:
        return rnn_naive(gates, h0, w_h, activation, begin, lengths)
    y, h = _states(gates.contiguous(), h0.contiguous(), w_h.contiguous(), activation == "relu", begin, lengths)
    return y, h


def _step(gates: Tensor, h: Tensor, w_h: Tensor, activation: Activation) -> tuple[Tensor]:
    return (rnn_step(gates, h, w_h, activation),)


@operation("rnn", fake=lambda gates, h0, *_: empty_like(gates, h0))
def _states(gates: Tensor, h0: Tensor, w_h: Tensor, relu: bool, begin: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    y, h = table(gates, gates.shape[1], lengths), h0.clone()
    split_sequences(_rnn_forward, begin, lengths, gates, panels(w_h.detach().T), relu, h0, y, h)
    return y, h


@operation("rnn_backward", fake=lambda y, w_h, relu, begin, lengths, dy, dh: empty_like(y, dh))
def _gradients(y: Tensor, w_h: Tensor, relu: bool, begin: Tensor, lengths: Tensor, dy: Tensor, dh: Tensor) -> tuple[Tensor, Tensor]:
    dgates, dh0 = table(y, y.shape[1], lengths), dh.clone()
    split_sequences(_rnn_backward, begin, lengths, y, panels(w_h.detach()), relu, dy, dh, dgates, dh0)
    return dgates, dh0


def _backpropagate(
    y: Tensor, h0: Tensor, w_h: Tensor, relu: bool, begin: Tensor, lengths: Tensor, dy: Tensor, dh: Tensor
) -> tuple[Any, ...]:
    dgates, dh0 = _gradients(y, w_h, relu, begin, lengths, dy, dh)
    return dgates, dh0, lambda: dgates.T @ before(y, h0, begin, lengths)


differentiate(
    _states,
    _backpropagate,
    save=lambda gates, h0, w_h, relu, begin, lengths, y, h: (y, h0, w_h, relu, begin, lengths),
    outputs=2,
)


@jit(fastmath={"contract"})
def _rnn_forward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, gates: Array, w: Array, relu: bool, h0: Array,
    y: Array, h_last: Array
) -> None:  # fmt: skip
    N, zero = h0.shape[1], gates.dtype.type(0)
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
                s, own = total[r, :N], h[r]
                add_to(s, gates[m])
                if relu:
                    for j in range(N):
                        own[j] = max(s[j], zero)
                else:
                    tanh_of(own, s)
                copy_into(y[m], own)
        for row in rows:
            copy_into(h_last[row], y[begin[row] + lengths[row] - 1])


@jit(fastmath={"contract"})
def _rnn_backward(
    start: int, stop: int, parts: int, order: Array, begin: Array, lengths: Array, y: Array, w: Array, relu: bool, dy: Array,
    dh_last: Array, dgates: Array, dh0: Array
) -> None:  # fmt: skip
    N, zero = y.shape[1], y.dtype.type(0)
    for part in range(start, stop):
        rows = order[part::parts]
        d = np.zeros((round_up_rows(len(rows)), N), y.dtype)
        back = np.empty((len(d), w.shape[0] * w.shape[2]), y.dtype)  # what step t + 1 gives to h_t
        for t in range(lengths[rows[0]] - 1, -1, -1):
            count = count_running(t, rows, lengths, len(rows))
            for r in range(count):
                row = rows[r]
                m = begin[row] + t
                g, h, own = back[r, :N], y[m], d[r]
                if t == lengths[row] - 1:
                    copy_into(g, dh_last[row])
                add_to(g, dy[m])
                if relu:
                    for j in range(N):
                        own[j] = g[j] if h[j] > zero else zero
                else:
                    for j in range(N):
                        own[j] = g[j] - g[j] * h[j] * h[j]
                copy_into(dgates[m], own)
            multiply(count, d, w, back)
        for r, row in enumerate(rows):
            copy_into(dh0[row], back[r])
