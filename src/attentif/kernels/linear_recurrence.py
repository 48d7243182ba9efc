"""An elementwise linear recurrence.

    h_t = a_t ⊙ h_{t-1} + b_t,     t = 1 ... T

    a        decay, within [-1, 1] where it is to stay stable      (B, T, D)
    b        what comes in                                         (B, T, D)
    h_0      the state before the first step                       (B, D)

Backwards it is the same recurrence: with g_t the gradient of h_t,

    λ_t = g_t + a_{t+1} ⊙ λ_{t+1},     ∂b_t = λ_t,     ∂a_t = λ_t ⊙ h_{t-1},     ∂h_0 = a_1 ⊙ λ_1

Where a = 1 and b = 0 (padding) the state passes unchanged. Gated linear recurrences (Martin & Cundy 2018; De et al. 2024) are made of it.
"""

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.copy import copy_into
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation

BLOCK = 64  # components that one piece of work carries through time: their states stay in registers and the first cache


def linear_recurrence_naive(a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    """The equation: (B, T, D) states."""
    h, states = h0, []
    for decay, new in zip(a.unbind(1), b.unbind(1), strict=True):
        h = decay * h + new
        states.append(h)
    return torch.stack(states, 1) if states else torch.empty_like(b)


def linear_recurrence(a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    """The same: a compiled loop on CPU, a parallel scan elsewhere."""
    if a.is_cpu:
        states: Tensor = _states(a.contiguous(), b.contiguous(), h0.contiguous())
        return states
    return linear_recurrence_doubling(a, b, h0)


def linear_recurrence_doubling(a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    """The same in log₂ T steps (Hillis & Steele 1986); step i spans 2^i tokens."""
    b = torch.cat([(b[:, :1] + a[:, :1] * h0[:, None]), b[:, 1:]], 1)
    reach = 1
    while reach < b.shape[1]:
        b = torch.cat([b[:, :reach], b[:, reach:] + a[:, reach:] * b[:, :-reach]], 1)
        a = torch.cat([a[:, :reach], a[:, reach:] * a[:, :-reach]], 1)
        reach *= 2
    return b


@operation("linear_recurrence", fake=lambda a, b, h0: torch.empty_like(b))
def _states(a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    h = torch.empty_like(b)
    parallel_for(_forward, _pieces(a), a.detach().numpy(), b.detach().numpy(), h0.detach().numpy(), h.numpy())
    return h


@operation("linear_recurrence_backward", fake=lambda a, h, h0, g: empty_like(a, a, h0))
def _gradients(a: Tensor, h: Tensor, h0: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    da, db, dh0 = empty_like(a, a, h0)
    parallel_for(_backward, _pieces(a), *(t.detach().numpy() for t in (a, h, h0, g, da, db, dh0)))
    return da, db, dh0


differentiate(_states, _gradients, save=lambda a, b, h0, h: (a, h, h0))


def _pieces(a: Tensor) -> int:
    """Number of independent pieces: rows times blocks of components."""
    return a.shape[0] * -(-a.shape[2] // BLOCK)


@jit()
def _forward(start: int, stop: int, a: Array, b: Array, h0: Array, h: Array) -> None:
    T, D = a.shape[1], a.shape[2]
    blocks = -(-D // BLOCK)
    for piece in range(start, stop):
        row, first = piece // blocks, piece % blocks * BLOCK
        last = min(first + BLOCK, D)
        size = last - first
        before = h0[row, first:last].copy()
        for t in range(T):
            decay, new, now = a[row, t, first:last], b[row, t, first:last], h[row, t, first:last]
            for d in range(size):
                before[d] = decay[d] * before[d] + new[d]
                now[d] = before[d]


@jit()
def _backward(start: int, stop: int, a: Array, h: Array, h0: Array, g: Array, da: Array, db: Array, dh0: Array) -> None:
    T, D = a.shape[1], a.shape[2]
    blocks = -(-D // BLOCK)
    for piece in range(start, stop):
        row, first = piece // blocks, piece % blocks * BLOCK
        last = min(first + BLOCK, D)
        size = last - first
        after = np.zeros_like(h0[row, first:last])  # a_{t+1} λ_{t+1}
        for t in range(T - 1, -1, -1):
            decay, given, out, d_out = a[row, t, first:last], g[row, t, first:last], db[row, t, first:last], da[row, t, first:last]
            before = h[row, t - 1, first:last] if t else h0[row, first:last]
            for d in range(size):
                adjoint = given[d] + after[d]
                out[d] = adjoint
                d_out[d] = adjoint * before[d]
                after[d] = decay[d] * adjoint
        copy_into(dh0[row, first:last], after)
