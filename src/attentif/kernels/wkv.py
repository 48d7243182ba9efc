"""RWKV-4's WKV: a weighted mean of past values per component (Peng et al. 2023, eq. 16).

    y_t = (P_{t-1} + e^{u + k_t} v_t) / (Q_{t-1} + e^{u + k_t})
    P_t = e^{-w} P_{t-1} + e^{k_t} v_t,     Q_t = e^{-w} Q_{t-1} + e^{k_t}

    w        decay of the past in one step, positive                        (D,)
    u        bonus of the token itself                                      (D,)
    k, v     keys and values of all tokens, sequence after sequence         (N, D)
    P, Q     sums over the past, kept as p e^o and q e^o                    (B, D) each
    o        the largest exponent seen, decayed: no exp ever overflows      (B, D)

Backwards, with g_t the gradient of y_t, r_t = 1 / (Q_{t-1} + e^{u + k_t}) and λ, μ the gradients of P and Q:

    λ_{t-1} = e^{-w} λ_t + g_t r_t                  ∂v_t = e^{u + k_t} g_t r_t + e^{k_t} λ_t
    μ_{t-1} = e^{-w} μ_t - g_t r_t y_t              ∂k_t = e^{u + k_t} g_t r_t (v_t - y_t) + e^{k_t} (λ_t v_t + μ_t)
    ∂w = -Σ_t e^{-w} (λ_t P_{t-1} + μ_t Q_{t-1})    ∂u = Σ_t e^{u + k_t} g_t r_t (v_t - y_t)

λ and μ have their own exponent m. o only scales P and Q, so it has no gradient.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.copy import copy_into
from attentif.kernels.exp import exp
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation

BLOCK = 64  # components that one piece of work carries through time
CHUNK = 32  # steps recomputed from one stored state in the backward pass
NOTHING = -1e38  # exponent of an empty sum


class Runs(NamedTuple):
    """Offsets of sequences among N tokens, for padded and packed batches alike."""

    begins: Tensor  # (B,)
    lengths: Tensor  # (B,)
    longest: int


class Sums(NamedTuple):
    """P = p e^o and Q = q e^o of each sequence."""

    p: Tensor  # (B, D)
    q: Tensor  # (B, D)
    o: Tensor  # (B, D)

    @classmethod
    def empty(cls, batch: int, width: int, *, device: torch.device, dtype: torch.dtype) -> "Sums":
        p, q = torch.zeros(2, batch, width, device=device, dtype=dtype)
        return cls(p, q, torch.full_like(p, NOTHING))


def wkv_naive(w: Tensor, u: Tensor, k: Tensor, v: Tensor, before: Sums, runs: Runs) -> tuple[Tensor, Sums]:
    """The equation: outputs (N, D), zero outside sequences, and the final sums."""
    y: list[Tensor] = list(torch.zeros_like(k).unbind())
    P, Q = list((before.p * before.o.exp()).unbind()), list((before.q * before.o.exp()).unbind())
    for row, (begin, length) in enumerate(zip(runs.begins.tolist(), runs.lengths.tolist(), strict=True)):
        for at in range(begin, begin + length):
            now = (u + k[at]).exp()
            y[at] = (P[row] + now * v[at]) / (Q[row] + now)
            P[row] = (-w).exp() * P[row] + k[at].exp() * v[at]
            Q[row] = (-w).exp() * Q[row] + k[at].exp()
    p, q = torch.stack(P), torch.stack(Q)
    o = torch.where(q > 0, q.detach().log(), NOTHING)
    return torch.stack(y), Sums(p * (-o).exp().where(q > 0, 0.0), q * (-o).exp().where(q > 0, 0.0), o)


def wkv(w: Tensor, u: Tensor, k: Tensor, v: Tensor, before: Sums, runs: Runs) -> tuple[Tensor, Sums]:
    """The same: a compiled loop on CPU, a parallel scan elsewhere."""
    if not k.is_cpu:
        return wkv_doubling(w, u, k, v, before, runs)
    given = [t.contiguous() for t in (w, u, k, v, *before)]
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        y, p, q, o, _ = _outputs(*given, *runs)
    else:  # skip the dispatcher in decoding
        y, p, q, o, _ = _run(given, runs, chunks=0)
    return y, Sums(p, q, o.detach())


def wkv_doubling(w: Tensor, u: Tensor, k: Tensor, v: Tensor, before: Sums, runs: Runs) -> tuple[Tensor, Sums]:
    """The same in log₂ T steps (Hillis & Steele 1986); step i spans 2^i tokens."""
    steps = torch.arange(runs.longest, device=k.device)
    inside = steps < runs.lengths[:, None]
    at = torch.where(inside, runs.begins[:, None] + steps, 0)
    k_, v_ = k[at], v[at]  # (B, T, D)
    o = k_.detach()
    p, q = (k_ - o).exp() * v_, (k_ - o).exp()
    p, q, o = (torch.cat([first[:, None], rest], 1) for first, rest in zip(before, (p, q, o), strict=True))
    reach = 1
    while reach < o.shape[1]:
        past = _decay(Sums(p[:, :-reach], q[:, :-reach], o[:, :-reach]), reach * w)
        both = _add(past, Sums(p[:, reach:], q[:, reach:], o[:, reach:]))
        p, q, o = (torch.cat([old[:, :reach], new], 1) for old, new in zip((p, q, o), both, strict=True))
        reach *= 2
    top = (u + k_).detach()
    now = (u + k_ - top).exp()
    total = _add(Sums(p[:, :-1], q[:, :-1], o[:, :-1]), Sums(now * v_, now, top))
    y = torch.zeros_like(k).index_put((at[inside],), (total.p / total.q)[inside])
    last = runs.lengths[:, None, None].expand(-1, 1, k.shape[1])
    return y, Sums(*(t.gather(1, last).squeeze(1) for t in (p, q, o)))


def _decay(sums: Sums, w: Tensor) -> Sums:
    """Multiply the sums by e^{-w}, with the gradient of w in p and q."""
    factor = (w.detach() - w).exp()
    return Sums(sums.p * factor, sums.q * factor, sums.o - w.detach())


def _add(one: Sums, other: Sums) -> Sums:
    o = torch.maximum(one.o, other.o)
    a, b = (one.o - o).exp(), (other.o - o).exp()
    return Sums(a * one.p + b * other.p, a * one.q + b * other.q, o)


def _run(given: list[Tensor], runs: Runs, chunks: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    k, p = given[2], given[4]
    B, D = p.shape
    y, after, marks = torch.zeros_like(k), k.new_empty(3, B, D), k.new_empty(B, chunks, 3, D)
    where = (runs.begins.numpy(), runs.lengths.numpy())
    parallel_for(_forward, _pieces(p), *(t.detach().numpy() for t in given), *where, y.numpy(), after.numpy(), marks.numpy())
    return y, after[0], after[1], after[2], marks


def _fake_outputs(*given: Any) -> tuple[Tensor, ...]:
    _, _, k, _, p, q, o, *_, longest = given
    return *empty_like(k, p, q, o), k.new_empty(len(p), -(-longest // CHUNK), 3, p.shape[1])


@operation("wkv", fake=_fake_outputs)
def _outputs(
    w: Tensor, u: Tensor, k: Tensor, v: Tensor, p: Tensor, q: Tensor, o: Tensor, begins: Tensor, lengths: Tensor, longest: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    y, *after, marks = _run([w, u, k, v, p, q, o], Runs(begins, lengths, longest), chunks=-(-longest // CHUNK))
    return y, after[0].clone(), after[1].clone(), after[2].clone(), marks


@operation("wkv_backward", fake=lambda w, u, k, v, *given: empty_like(w, u, k, v, *given[-2:]))
def _gradients(
    w: Tensor, u: Tensor, k: Tensor, v: Tensor, marks: Tensor, o: Tensor, begins: Tensor, lengths: Tensor, g: Tensor, gp: Tensor, gq: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    dw, du, dp, dq = empty_like(gp, gp, gp, gp)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    tensors = (w, u, k, v, marks, o, begins, lengths, g, gp, gq, dw, du, dk, dv, dp, dq)
    parallel_for(_backward, _pieces(gp), *(t.detach().numpy() for t in tensors))
    return dw.sum(0), du.sum(0), dk, dv, dp, dq


differentiate(
    _outputs,
    _gradients,
    save=lambda w, u, k, v, p, q, o, begins, lengths, longest, y, p1, q1, o1, marks: (w, u, k, v, marks, o1, begins, lengths),
    outputs=3,
)


def _pieces(p: Tensor) -> int:
    return p.shape[0] * -(-p.shape[1] // BLOCK)


@jit(fastmath={"contract"})
def _forward(
    start: int, stop: int, w: Array, u: Array, k: Array, v: Array, p0: Array, q0: Array, o0: Array, begins: Array, lengths: Array,
    y: Array, after: Array, marks: Array
) -> None:  # fmt: skip
    D = k.shape[1]
    blocks = -(-D // BLOCK)
    one = k.dtype.type(1)
    for piece in range(start, stop):
        row, first = piece // blocks, piece % blocks * BLOCK
        last = min(first + BLOCK, D)
        size = last - first
        p, q, o = p0[row, first:last].copy(), q0[row, first:last].copy(), o0[row, first:last].copy()
        decay, bonus = w[first:last].copy(), u[first:last].copy()
        for t in range(lengths[row]):
            if marks.shape[1] and t % CHUNK == 0:
                mark = marks[row, t // CHUNK]
                copy_into(mark[0, first:last], p)
                copy_into(mark[1, first:last], q)
                copy_into(mark[2, first:last], o)
            keys, values, out = k[begins[row] + t, first:last], v[begins[row] + t, first:last], y[begins[row] + t, first:last]
            for d in range(size):
                key, value = keys[d], values[d]
                gap = o[d] - (bonus[d] + key)
                e = exp(-abs(gap))
                past = one if gap > 0 else e
                now = e if gap > 0 else one
                out[d] = (past * p[d] + now * value) / (past * q[d] + now)
                gap = o[d] - decay[d] - key
                e = exp(-abs(gap))
                past = one if gap > 0 else e
                now = e if gap > 0 else one
                p[d] = past * p[d] + now * value
                q[d] = past * q[d] + now
                o[d] = max(o[d] - decay[d], key)
        copy_into(after[0, row, first:last], p)
        copy_into(after[1, row, first:last], q)
        copy_into(after[2, row, first:last], o)


@jit(fastmath={"contract"})
def _backward(
    start: int, stop: int, w: Array, u: Array, k: Array, v: Array, marks: Array, last_o: Array, begins: Array, lengths: Array,
    g: Array, gp: Array, gq: Array, dw: Array, du: Array, dk: Array, dv: Array, dp: Array, dq: Array
) -> None:  # fmt: skip
    D = k.shape[1]
    blocks = -(-D // BLOCK)
    one = k.dtype.type(1)
    p, q, o = np.empty((CHUNK, BLOCK), k.dtype), np.empty((CHUNK, BLOCK), k.dtype), np.empty((CHUNK, BLOCK), k.dtype)
    for piece in range(start, stop):
        row, first = piece // blocks, piece % blocks * BLOCK
        last = min(first + BLOCK, D)
        size = last - first
        decay, bonus = w[first:last].copy(), u[first:last].copy()
        sum_w, sum_u = np.zeros_like(decay), np.zeros_like(decay)
        dP, dQ, m = gp[row, first:last].copy(), gq[row, first:last].copy(), -last_o[row, first:last]
        for chunk in range(-(-lengths[row] // CHUNK) - 1, -1, -1):
            begin = begins[row] + chunk * CHUNK
            steps = min(CHUNK, lengths[row] - chunk * CHUNK)
            mark = marks[row, chunk]
            copy_into(p[0, :size], mark[0, first:last])
            copy_into(q[0, :size], mark[1, first:last])
            copy_into(o[0, :size], mark[2, first:last])
            for t in range(steps - 1):
                keys, values = k[begin + t, first:last], v[begin + t, first:last]
                for d in range(size):
                    gap = o[t, d] - decay[d] - keys[d]
                    e = exp(-abs(gap))
                    past = one if gap > 0 else e
                    now = e if gap > 0 else one
                    p[t + 1, d] = past * p[t, d] + now * values[d]
                    q[t + 1, d] = past * q[t, d] + now
                    o[t + 1, d] = max(o[t, d] - decay[d], keys[d])
            for t in range(steps - 1, -1, -1):
                keys, values, given = k[begin + t, first:last], v[begin + t, first:last], g[begin + t, first:last]
                dkeys, dvalues = dk[begin + t, first:last], dv[begin + t, first:last]
                for d in range(size):
                    key, value = keys[d], values[d]
                    gap = o[t, d] - (bonus[d] + key)
                    e = exp(-abs(gap))
                    past = one if gap > 0 else e
                    now = e if gap > 0 else one
                    r = one / (past * q[t, d] + now)
                    y = (past * p[t, d] + now * value) * r
                    r *= given[d]
                    own = now * r * (value - y)
                    e = exp(key + m[d])  # never above 1: m falls behind the exponents of every later sum
                    dkeys[d] = own + e * (dP[d] * value + dQ[d])
                    dvalues[d] = now * r + e * dP[d]
                    sum_u[d] += own
                    sum_w[d] -= exp(m[d] + o[t, d] - decay[d]) * (dP[d] * p[t, d] + dQ[d] * q[t, d])
                    top = max(o[t, d], bonus[d] + key)
                    gap = m[d] - decay[d] + top
                    e = exp(-abs(gap))
                    past = one if gap > 0 else e
                    now = e if gap > 0 else one
                    dP[d] = past * dP[d] + now * r
                    dQ[d] = past * dQ[d] - now * r * y
                    m[d] = max(m[d] - decay[d], -top)
        first_o = marks[row, 0, 2, first:last] if lengths[row] > 0 else last_o[row, first:last]
        for d in range(size):
            e = exp(m[d] + first_o[d])
            dp[row, first + d], dq[row, first + d] = e * dP[d], e * dQ[d]
        copy_into(dw[row, first:last], sum_w)
        copy_into(du[row, first:last], sum_u)
