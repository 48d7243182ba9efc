"""RWKV-7's generalised delta rule: a matrix memory per head (Peng et al. 2025, eq. 17).

    M_t = diag(w_t) M_{t-1} + b_t (a_tᵀ M_{t-1}) + k_t v_tᵀ,     y_t = r_tᵀ M_t

    w        share of each row that is kept                                       (N, H, K)
    a, b     what is read of the memory, and where it is added again: with a = -κ and b = κ ⊙ α, the value stored under the key κ
             is taken out, in part                                                (N, H, K)
    k, v     key and value that are written                                       (N, H, K)
    r        what reads                                                           (N, H, K)
    M        memory, rows by key, columns by value                                (B, H, K, K)

Backwards, with g_t the gradient of y_t, G that of M_t, u_t = a_tᵀ M_{t-1} and μ_t = b_tᵀ G:

    G ← G + r_t g_tᵀ,    ∂r = M_t g,   ∂k = G v,   ∂v = Gᵀ k,   ∂w = rows of G · M_{t-1},   ∂b = G u,   ∂a = M_{t-1} μ
    G ← diag(w_t) G + a_t μ_tᵀ
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.copy import copy_rows_into
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.wkv import Runs

CHUNK = 16  # steps recomputed from one stored memory in the backward pass


def delta_rule_naive(r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, before: Tensor, runs: Runs) -> tuple[Tensor, Tensor]:
    """The equation: outputs (N, H, K), zero outside sequences, and final memories (B, H, K, K)."""
    y: list[Tensor] = list(torch.zeros_like(r).unbind())
    memories = []
    for M, begin, length in zip(before, runs.begins.tolist(), runs.lengths.tolist(), strict=True):
        for t in range(begin, begin + length):
            u = torch.einsum("hk,hkv->hv", a[t], M)
            M = w[t, :, :, None] * M + b[t, :, :, None] * u[:, None] + k[t, :, :, None] * v[t, :, None]
            y[t] = torch.einsum("hk,hkv->hv", r[t], M)
        memories.append(M)
    return torch.stack(y), torch.stack(memories)


def delta_rule(r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, before: Tensor, runs: Runs) -> tuple[Tensor, Tensor]:
    """The same: a compiled loop on CPU, a parallel scan elsewhere."""
    if not r.is_cpu:
        return delta_rule_doubling(r, w, k, v, a, b, before, runs)
    given = [t.contiguous() for t in (r, w, k, v, a, b, before)]
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        y, after, _ = _outputs(*given, *runs)
    else:  # skip the dispatcher in decoding
        y, after, _ = _run(given, runs, chunks=0)
    return y, after


def delta_rule_doubling(
    r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, before: Tensor, runs: Runs
) -> tuple[Tensor, Tensor]:
    """The same in log₂ T steps (Hillis & Steele 1986); step i spans 2^i tokens."""
    steps = torch.arange(runs.longest, device=r.device)
    inside = steps < runs.lengths[:, None]
    at = torch.where(inside, runs.begins[:, None] + steps, 0)
    r_, w_, k_, v_, a_, b_ = (t[at] for t in (r, w, k, v, a, b))  # (B, T, H, K)
    A = torch.diag_embed(w_) + b_[..., :, None] * a_[..., None, :]
    M = torch.cat([before[:, None], k_[..., :, None] * v_[..., None, :]], 1)  # (B, 1 + T, H, K, K): the memory before, then what is written
    A = torch.cat([torch.zeros_like(A[:, :1]), A], 1)  # nothing lies before the memory before
    reach = 1
    while reach < M.shape[1]:
        M = torch.cat([M[:, :reach], A[:, reach:] @ M[:, :-reach] + M[:, reach:]], 1)
        A = torch.cat([A[:, :reach], A[:, reach:] @ A[:, :-reach]], 1)
        reach *= 2
    y = torch.einsum("bthk,bthkv->bthv", r_, M[:, 1:])
    last = runs.lengths[:, None, None, None, None].expand(-1, 1, *M.shape[2:])
    return torch.zeros_like(r).index_put((at[inside],), y[inside]), M.gather(1, last).squeeze(1)


def _run(given: list[Tensor], runs: Runs, chunks: int) -> tuple[Tensor, Tensor, Tensor]:
    before = given[6]
    B, H, K, _ = before.shape
    y, after, marks = torch.zeros_like(given[0]), before.clone(), before.new_empty(B, chunks, H, K, K)
    tensors = (*given[:6], runs.begins, runs.lengths, y, after, marks)
    parallel_for(_forward, B * H, *(t.detach().numpy() for t in tensors))
    return y, after, marks


def _fake_outputs(*given: Any) -> tuple[Tensor, ...]:
    r, before, longest = given[0], given[6], given[-1]
    return *empty_like(r, before), before.new_empty(len(before), -(-longest // CHUNK), *before.shape[1:])


@operation("delta_rule", fake=_fake_outputs)
def _outputs(
    r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, before: Tensor, begins: Tensor, lengths: Tensor, longest: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _run([r, w, k, v, a, b, before], Runs(begins, lengths, longest), chunks=-(-longest // CHUNK))


@operation("delta_rule_backward", fake=lambda *given: empty_like(*given[:6], given[-1]))
def _gradients(
    r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, marks: Tensor, begins: Tensor, lengths: Tensor, g: Tensor, G: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    dr, dw, dk, dv, da, db = (torch.zeros_like(r) for _ in range(6))
    dM = G.clone()
    parallel_for(
        _backward,
        G.shape[0] * G.shape[1],
        *(t.detach().numpy() for t in (r, w, k, v, a, b, marks, begins, lengths, g)),
        *(t.numpy() for t in (dr, dw, dk, dv, da, db, dM)),
    )
    return dr, dw, dk, dv, da, db, dM


differentiate(
    _outputs,
    _gradients,
    save=lambda r, w, k, v, a, b, before, begins, lengths, longest, y, after, marks: (r, w, k, v, a, b, marks, begins, lengths),
    outputs=2,
)


@jit(fastmath={"contract"})
def _forward(
    start: int, stop: int, r: Array, w: Array, k: Array, v: Array, a: Array, b: Array, begins: Array, lengths: Array, y: Array,
    after: Array, marks: Array
) -> None:  # fmt: skip
    H, K = r.shape[1], r.shape[2]
    u = np.empty(K, r.dtype)
    for piece in range(start, stop):
        row, head = piece // H, piece % H
        M = after[row, head]
        for t in range(lengths[row]):
            if marks.shape[1] and t % CHUNK == 0:
                copy_rows_into(marks[row, t // CHUNK, head], M)
            at = begins[row] + t
            value, out = v[at, head], y[at, head]
            u[:] = 0
            for i in range(K):
                read, line = a[at, head, i], M[i]
                for j in range(K):
                    u[j] += read * line[j]
            for i in range(K):
                kept, added, key, seen, line = w[at, head, i], b[at, head, i], k[at, head, i], r[at, head, i], M[i]
                for j in range(K):
                    line[j] = kept * line[j] + added * u[j] + key * value[j]
                    out[j] += seen * line[j]


@jit(fastmath={"contract", "reassoc", "nsz"})
def _backward(
    start: int, stop: int, r: Array, w: Array, k: Array, v: Array, a: Array, b: Array, marks: Array, begins: Array,
    lengths: Array, g: Array, dr: Array, dw: Array, dk: Array, dv: Array, da: Array, db: Array, dM: Array
) -> None:  # fmt: skip
    H, K = r.shape[1], r.shape[2]
    M, u = np.empty((CHUNK + 1, K, K), r.dtype), np.empty((CHUNK, K), r.dtype)  # memories before each step of a chunk, and after the last
    back = np.empty(K, r.dtype)
    zero = r.dtype.type(0)
    for piece in range(start, stop):
        row, head = piece // H, piece % H
        G = dM[row, head]
        for chunk in range(-(-lengths[row] // CHUNK) - 1, -1, -1):
            begin = begins[row] + chunk * CHUNK
            steps = min(CHUNK, lengths[row] - chunk * CHUNK)
            copy_rows_into(M[0], marks[row, chunk, head])
            for t in range(steps):
                value, seen = v[begin + t, head], u[t]
                seen[:] = 0
                for i in range(K):
                    read, line = a[begin + t, head, i], M[t, i]
                    for j in range(K):
                        seen[j] += read * line[j]
                for i in range(K):
                    kept, added, key = w[begin + t, head, i], b[begin + t, head, i], k[begin + t, head, i]
                    old, new = M[t, i], M[t + 1, i]
                    for j in range(K):
                        new[j] = kept * old[j] + added * seen[j] + key * value[j]
            for t in range(steps - 1, -1, -1):
                at = begin + t
                given, value, dvalue, seen = g[at, head], v[at, head], dv[at, head], u[t]
                back[:] = 0
                for i in range(K):
                    reader, key, added, line, old, new = r[at, head, i], k[at, head, i], b[at, head, i], G[i], M[t, i], M[t + 1, i]
                    sum_r, sum_k, sum_w, sum_b = zero, zero, zero, zero
                    for j in range(K):
                        slope = line[j] + reader * given[j]
                        line[j] = slope
                        sum_r += new[j] * given[j]
                        sum_k += slope * value[j]
                        sum_w += slope * old[j]
                        sum_b += slope * seen[j]
                        dvalue[j] += key * slope
                        back[j] += added * slope
                    dr[at, head, i], dk[at, head, i], dw[at, head, i], db[at, head, i] = sum_r, sum_k, sum_w, sum_b
                for i in range(K):
                    kept, read, line, old = w[at, head, i], a[at, head, i], G[i], M[t, i]
                    sum_a = zero
                    for j in range(K):
                        sum_a += old[j] * back[j]
                        line[j] = kept * line[j] + read * back[j]
                    da[at, head, i] = sum_a
