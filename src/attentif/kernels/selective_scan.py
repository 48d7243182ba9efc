"""Mamba's selective scan (Gu & Dao 2023, eq. 2 and algorithm 2) over concatenated sequences.

    h_t = exp(Δ_t A) ⊙ h_{t-1} + (Δ_t x_t) B_t,        y_t = C_t h_t + D ⊙ x_t

    x, Δ             input, and the step size of each channel (≥ 0)     (N, D)
    A                rates of decay (≤ 0)                               (D, S)
    B, C             what is written, what is read                      (N, S)
    D                skip                                               (D,)
    h_0              the state before each sequence                     (B, S, D)
    first, lengths   where each sequence begins in x, its tokens        (B,)

S numbers of state for each of D channels. As in `kernels/conv.py`, a padded batch is such a list of sequences too.

The backward pass stores every CHUNK-th state and recomputes the others, so nothing of size (N, D, S) is stored. With λ_t the gradient of
h_t:

    λ_t = dy_t C_t + a_{t+1} λ_{t+1},   e_t = λ_t ⊙ a_t ⊙ h_{t-1}  (the gradient of Δ_t A),   a_t = exp(Δ_t A)
    dA = Σ_t Δ_t e_t,   dB_t = Σ_d λ_t Δ_t x_t,   dC_t = Σ_d dy_t h_t
    dx_t = Δ_t Σ_s λ_t B_t + D dy_t,   dΔ_t = Σ_s e_t A + x_t Σ_s λ_t B_t
"""

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.conv import covers
from attentif.kernels.copy import copy_into, copy_rows_into
from attentif.kernels.exp import exp2_decay
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.linear_recurrence import linear_recurrence_doubling
from attentif.kernels.operation import differentiate, empty_like, operation

BLOCK = 128  # channels processed together: their states fit the first cache
CHUNK = 16  # steps between two states stored for the backward pass
PARTS = 8  # maximal number of partial sums over channels in the backward pass
_LOG2_E, _LN2 = 1.4426950408889634, 0.6931471805599453

Scanned = tuple[Tensor, Tensor]  # y (N, D), and the state after each sequence (B, S, D)


def selective_scan_naive(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor, first: Tensor, lengths: Tensor
) -> Scanned:
    """The equation, sequence by sequence, step by step."""
    places, values, states = [], [], []
    for h, begin, length in zip(h0, first.tolist(), lengths.tolist(), strict=True):
        for t in range(begin, begin + length):
            h = torch.exp(delta[t] * A.T) * h + B[t, :, None] * (delta[t] * x[t])
            values.append(C[t] @ h + D * x[t])
            places.append(t)
        states.append(h)
    y = torch.zeros_like(x).index_put((torch.tensor(places),), torch.stack(values)) if places else torch.zeros_like(x)
    return y, torch.stack(states)


def selective_scan(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor, first: Tensor, lengths: Tensor
) -> Scanned:
    """The same: a compiled loop on CPU, a parallel scan elsewhere; zero outside the sequences."""
    if not x.is_cpu:
        return selective_scan_doubling(x, delta, A, B, C, D, h0, first, lengths)
    inputs = [t.contiguous() for t in (x, delta, A.T, B, C, D, h0, first, lengths)]
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        y, last, _ = _scan(*inputs)
        return y, last
    y, last, _ = _run(inputs, keep=False)  # skip the dispatcher in decoding
    return y, last


def selective_scan_doubling(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor, first: Tensor, lengths: Tensor
) -> Scanned:
    """The same in log₂ T steps on padded rows; it stores the states of every step."""
    step = torch.arange(int(lengths.max()), device=x.device)
    inside = step < lengths[:, None]  # (B, T)
    place = torch.where(inside, first[:, None] + step, 0)
    x_, delta_, B_, C_ = (t[place] for t in (x, delta, B, C))
    delta_ = torch.where(inside[..., None], delta_, 0)  # keeps the state past a row's end
    decay = torch.exp(delta_[:, :, None] * A.T)  # (B, T, S, D)
    new = B_[..., None] * (delta_ * x_)[:, :, None]
    h = linear_recurrence_doubling(decay.flatten(2), new.flatten(2), h0.flatten(1)).unflatten(2, A.T.shape)
    y = (C_[..., None] * h).sum(2) + D * x_
    return torch.zeros_like(x).index_put((place[inside],), y[inside]), h[:, -1] if h.shape[1] else h0


def _run(inputs: list[Tensor], keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, the last states, and every CHUNK-th state if `keep`."""
    x, A, h0, first, lengths = inputs[0], inputs[2], inputs[6], inputs[7], inputs[8]
    y = torch.empty_like(x) if covers(x, lengths) else torch.zeros_like(x)
    last = torch.empty_like(h0)
    begins, chunks = _chunks(lengths) if keep else (lengths, 0)
    kept = x.new_empty(chunks, *A.shape)
    arrays = (t.detach().numpy() for t in (*inputs, begins, kept, y, last))
    parallel_for(_forward, len(first) * _blocks(x), *arrays)
    return y, last, kept


def _fake_scan(*given: Tensor) -> tuple[Tensor, ...]:
    x, A, h0 = given[0], given[2], given[6]
    chunks = torch.library.get_ctx().new_dynamic_size()
    return *empty_like(x, h0), x.new_empty(chunks, *A.shape)


@operation("selective_scan", fake=_fake_scan)
def _scan(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor, first: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _run([x, delta, A, B, C, D, h0, first, lengths], keep=True)


@operation("selective_scan_backward", fake=lambda *given: empty_like(*given[:6], given[-1]))
def _gradients(
    x: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    first: Tensor,
    lengths: Tensor,
    kept: Tensor,
    dy: Tensor,
    dlast: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, (S, width) = len(first), A.shape
    parts = min(PARTS, _blocks(x))
    full = covers(x, lengths)
    make = torch.empty if full else torch.zeros
    dx, ddelta = (make(x.shape, dtype=x.dtype) for _ in range(2))
    dB, dC = (make((parts, len(x), S), dtype=x.dtype) for _ in range(2))
    dA, dh0, dD = x.new_empty(rows, S, width), torch.empty_like(dlast), x.new_empty(rows, width)
    inputs = (t.detach().numpy() for t in (x, delta, A, B, C, D, first, lengths, _chunks(lengths)[0], kept, dy, dlast))
    parallel_for(_backward, rows * parts, *inputs, *(t.numpy() for t in (dx, ddelta, dA, dB, dC, dD, dh0)))
    return dx, ddelta, dA.sum(0), dB.sum(0), dC.sum(0), dD.sum(0), dh0


differentiate(
    _scan,
    _gradients,
    save=lambda x, delta, A, B, C, D, h0, first, lengths, y, last, kept: (x, delta, A, B, C, D, first, lengths, kept),
    outputs=2,
)


def _blocks(x: Tensor) -> int:
    return -(-x.shape[1] // BLOCK)


def _chunks(lengths: Tensor) -> tuple[Tensor, int]:
    """Return where each sequence's stored states begin, and their total number."""
    ends = ((lengths + CHUNK - 1) // CHUNK).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends[:-1]]), int(ends[-1]) if len(ends) else 0


@jit(fastmath={"contract"})
def _forward(
    start: int, stop: int, x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, h0: Array, first: Array,
    lengths: Array, begins: Array, kept: Array, y: Array, last: Array
) -> None:  # fmt: skip
    S, width = A.shape
    blocks, pairs = -(-width // BLOCK), S + S % 2  # states are processed in pairs; an odd one gets an empty partner
    h, rate = np.zeros((pairs, BLOCK), x.dtype), np.zeros((pairs, BLOCK), x.dtype)
    step, new, out = np.zeros(BLOCK, x.dtype), np.zeros(BLOCK, x.dtype), np.zeros(BLOCK, x.dtype)
    b, c = np.zeros(pairs, x.dtype), np.zeros(pairs, x.dtype)
    log2_e = x.dtype.type(_LOG2_E)
    for piece in range(start, stop):
        row, low = piece // blocks, piece % blocks * BLOCK
        high, begin = min(low + BLOCK, width), first[row]
        count, skip = high - low, D[low:high]
        for s in range(S):
            for d in range(count):
                h[s, d] = h0[row, s, low + d]
                rate[s, d] = log2_e * A[s, low + d]
        for t in range(lengths[row]):
            p = begin + t
            if len(kept) > 0 and t % CHUNK == 0:
                copy_rows_into(kept[begins[row] + t // CHUNK, :, low:high], h)
            x_t, delta_t, y_t = x[p, low:high], delta[p, low:high], y[p, low:high]
            for d in range(count):
                step[d] = delta_t[d]
                new[d] = delta_t[d] * x_t[d]
                out[d] = skip[d] * x_t[d]
            for s in range(S):
                b[s] = B[p, s]
                c[s] = C[p, s]
            for s in range(0, pairs, 2):
                b0, b1, c0, c1 = b[s], b[s + 1], c[s], c[s + 1]
                for d in range(BLOCK):
                    one = exp2_decay(step[d] * rate[s, d]) * h[s, d] + b0 * new[d]
                    other = exp2_decay(step[d] * rate[s + 1, d]) * h[s + 1, d] + b1 * new[d]
                    h[s, d] = one
                    h[s + 1, d] = other
                    out[d] += c0 * one + c1 * other
            for d in range(count):
                y_t[d] = out[d]
        copy_rows_into(last[row, :, low:high], h)


@jit(fastmath={"contract", "reassoc", "nsz"})  # sums over channels may be taken in any order, the same one every time
def _backward(
    start: int, stop: int, x: Array, delta: Array, A: Array, B: Array, C: Array, D: Array, first: Array, lengths: Array,
    begins: Array, kept: Array, dy: Array, dlast: Array, dx: Array, ddelta: Array, dA: Array, dB: Array, dC: Array, dD: Array,
    dh0: Array
) -> None:  # fmt: skip
    S, width = A.shape
    blocks, parts = -(-width // BLOCK), len(dB)
    rate, adjoint, dA_ = np.zeros((S, BLOCK), x.dtype), np.zeros((S, BLOCK), x.dtype), np.zeros((S, BLOCK), x.dtype)
    # one of the S states at a time, to fit the first cache
    h, a = np.zeros((CHUNK + 1, BLOCK), x.dtype), np.zeros((CHUNK, BLOCK), x.dtype)
    step, new, g = np.zeros((CHUNK, BLOCK), x.dtype), np.zeros((CHUNK, BLOCK), x.dtype), np.zeros((CHUNK, BLOCK), x.dtype)
    dstep, dnew = np.zeros((CHUNK, BLOCK), x.dtype), np.zeros((CHUNK, BLOCK), x.dtype)
    log2_e, ln2, zero = x.dtype.type(_LOG2_E), x.dtype.type(_LN2), x.dtype.type(0)
    for piece in range(start, stop):
        row, part = piece // parts, piece % parts
        begin, T = first[row], lengths[row]
        dB[part, begin : begin + T] = 0
        dC[part, begin : begin + T] = 0
        for block in range(blocks * part // parts, blocks * (part + 1) // parts):
            low, high = block * BLOCK, min(block * BLOCK + BLOCK, width)
            count, skip, dD_ = high - low, D[low:high], dD[row, low:high]
            new[:] = 0  # zero beyond a narrower last block
            g[:] = 0
            dA_[:] = 0
            dD_[:] = 0
            for s in range(S):
                for d in range(count):
                    adjoint[s, d] = dlast[row, s, low + d]
                    rate[s, d] = log2_e * A[s, low + d]
            for chunk in range(-(-T // CHUNK) - 1, -1, -1):
                place, steps = begin + chunk * CHUNK, min(CHUNK, T - chunk * CHUNK)
                for t in range(steps):
                    x_t, delta_t, dy_t = x[place + t, low:high], delta[place + t, low:high], dy[place + t, low:high]
                    for d in range(count):
                        step[t, d] = delta_t[d]
                        new[t, d] = delta_t[d] * x_t[d]
                    for d in range(count):
                        g[t, d] = dy_t[d]
                        dD_[d] += dy_t[d] * x_t[d]
                dstep[:] = 0
                dnew[:] = 0
                for s in range(S):
                    copy_into(h[0, :count], kept[begins[row] + chunk, s, low:high])
                    for t in range(steps):  # the states once more
                        b = B[place + t, s]
                        for d in range(BLOCK):
                            decay = exp2_decay(step[t, d] * rate[s, d])
                            a[t, d] = decay
                            h[t + 1, d] = decay * h[t, d] + b * new[t, d]
                    for t in range(steps - 1, -1, -1):
                        b, c, db, dc = B[place + t, s], C[place + t, s], zero, zero
                        for d in range(BLOCK):
                            of_h = adjoint[s, d] + c * g[t, d]
                            back = a[t, d] * of_h
                            of_exponent = back * h[t, d]
                            adjoint[s, d] = back
                            db += of_h * new[t, d]
                            dc += g[t, d] * h[t + 1, d]
                            dA_[s, d] += of_exponent * step[t, d]
                            dstep[t, d] += of_exponent * rate[s, d]
                            dnew[t, d] += of_h * b
                        dB[part, place + t, s] += db
                        dC[part, place + t, s] += dc
                for t in range(steps):
                    x_t, dx_t, ddelta_t = x[place + t, low:high], dx[place + t, low:high], ddelta[place + t, low:high]
                    for d in range(count):
                        dx_t[d] = dnew[t, d] * step[t, d] + skip[d] * g[t, d]
                    for d in range(count):
                        ddelta_t[d] = ln2 * dstep[t, d] + dnew[t, d] * x_t[d]
            copy_rows_into(dA[row, :, low:high], dA_)
            copy_rows_into(dh0[row, :, low:high], adjoint)
