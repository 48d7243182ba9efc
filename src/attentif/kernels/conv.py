"""Short causal depthwise convolution over concatenated sequences.

    y_t = f(b + Σ_{k=0}^{W-1} w_k ⊙ x_{t-k})

    x        tokens of all sequences                               (N, D)
    w        taps, the oldest first as in torch's conv1d           (D, W)
    b        bias                                                  (D,)
    f        nothing, or silu: z σ(z)
    tail     what came before each sequence, the newest last       (B, W - 1, D)
    first, lengths   where each sequence begins in x, its tokens   (B,)

Padded batches (B, T, D) are handled as flat lists too; outputs outside the sequences are zero and padding is not computed. Used by state
spaces and gated recurrences (Gu & Dao 2023; De et al. 2024).
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.kernels.exp import sigmoid
from attentif.kernels.jit import Array, inline, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation

BLOCK = 128  # channels of one piece of work


def causal_conv_naive(
    x: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor, first: Tensor, lengths: Tensor, silu: bool = False
) -> Tensor:
    """The equation, sequence by sequence, step by step."""
    W = weight.shape[1]
    places, values = [], []
    for before, begin, length in zip(tail, first.tolist(), lengths.tolist(), strict=True):
        history = torch.cat([before, x[begin : begin + length]])
        for t in range(length):
            z = (history[t : t + W] * weight.T).sum(0) + (0 if bias is None else bias)
            values.append(F.silu(z) if silu else z)
            places.append(begin + t)
    return torch.zeros_like(x).index_put((torch.tensor(places),), torch.stack(values)) if places else torch.zeros_like(x)


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor, first: Tensor, lengths: Tensor, silu: bool = False) -> Tensor:
    """The same: a compiled loop on CPU, a gather of all taps elsewhere."""
    if not x.is_cpu:
        return causal_conv_gather(x, weight, bias, tail, first, lengths, silu)
    bias = weight.new_zeros(weight.shape[0]) if bias is None else bias
    y: Tensor = _conv(x.contiguous(), weight.T.contiguous(), bias, tail.contiguous(), first.contiguous(), lengths.contiguous(), silu)
    return y


def causal_conv_gather(
    x: Tensor, weight: Tensor, bias: Tensor | None, tail: Tensor, first: Tensor, lengths: Tensor, silu: bool = False
) -> Tensor:
    """The same, gathering every tap of every token at once."""
    W = weight.shape[1]
    step, row, inside = inside_of(len(x), first, lengths)
    back = torch.arange(W - 1, -1, -1, device=x.device)
    past = step[:, None] - back  # (N, W): the step that each tap reads; below 0 it lies in the tail
    known = tail.shape[0] * (W - 1)
    index = torch.where(past >= 0, known + torch.arange(len(x), device=x.device)[:, None] - back, (row * (W - 1))[:, None] + past + W - 1)
    index = torch.where(inside[:, None], index, 0)
    taps = torch.cat([tail.flatten(0, 1), x]).index_select(0, index.flatten()).unflatten(0, index.shape)
    y = (taps * weight.T).sum(1)
    y = y if bias is None else y + bias
    return torch.where(inside[:, None], F.silu(y) if silu else y, 0)


def next_tail(x: Tensor, tail: Tensor, lengths: Tensor, dense: bool) -> Tensor:
    """Return the tail after the first `lengths` tokens of each row of x (B, T, D)."""
    places = tail.shape[1]
    if dense:
        newest = x[:, max(0, x.shape[1] - places) :]
        return torch.cat([tail, newest], 1)[:, newest.shape[1] :]
    index = lengths[:, None] + torch.arange(places, device=x.device)
    return torch.cat([tail, x], 1).gather(1, index[..., None].expand(-1, -1, x.shape[2]))


def inside_of(places: int, first: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each position's step in its sequence, its sequence, and whether it is a token."""
    place = torch.arange(places, device=first.device)
    row = torch.searchsorted(first, place, right=True) - 1
    step = place - first[row]
    return step, row, step < lengths[row]


@operation("causal_conv", fake=lambda x, *_: torch.empty_like(x))
def _conv(x: Tensor, taps: Tensor, bias: Tensor, tail: Tensor, first: Tensor, lengths: Tensor, silu: bool) -> Tensor:
    y = torch.empty_like(x) if covers(x, lengths) else torch.zeros_like(x)
    parallel_for(_forward, _pieces(x, first), *(t.detach().numpy() for t in (x, taps, bias, tail, first, lengths)), silu, y.numpy())
    return y


@operation("causal_conv_backward", fake=lambda x, taps, bias, tail, *_: empty_like(x, taps, bias, tail))
def _gradients(
    x: Tensor, taps: Tensor, bias: Tensor, tail: Tensor, first: Tensor, lengths: Tensor, silu: bool, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, (W, D) = len(first), taps.shape
    dx = torch.empty_like(x) if covers(x, lengths) else torch.zeros_like(x)
    dtail = torch.empty_like(tail)
    dtaps, dbias = x.new_empty(rows, W, D), x.new_empty(rows, D)
    inputs = (t.detach().numpy() for t in (x, taps, bias, tail, first, lengths))
    parallel_for(_backward, _pieces(x, first), *inputs, silu, *(t.detach().numpy() for t in (dy, dx, dtail, dtaps, dbias)))
    return dx, dtaps.sum(0), dbias.sum(0), dtail


differentiate(_conv, _gradients, save=lambda *given: given[:-1])


def covers(x: Tensor, lengths: Tensor) -> bool:
    """Whether every position belongs to a sequence."""
    return int(lengths.sum()) == len(x)


def _pieces(x: Tensor, first: Tensor) -> int:
    return len(first) * -(-x.shape[1] // BLOCK)


# Slices start at the block's first channel, so that indices count from 0: numba does not vectorise where they might be negative.


@inline
def _before(past: int, row: int, begin: int, low: int, high: int, x: Array, tail: Array) -> Array:
    """Return the channels of step `past` of a sequence, from the tail if negative."""
    return x[begin + past, low:high] if past >= 0 else tail[row, past + tail.shape[1], low:high]


@inline
def _sum_taps(t: int, row: int, begin: int, low: int, high: int, x: Array, taps: Array, bias: Array, tail: Array, z: Array) -> None:
    """z = b + Σ w_k ⊙ x_{t-k} for the channels from low to high."""
    W = taps.shape[0]
    b = bias[low:high]
    for d in range(high - low):
        z[d] = b[d]
    for j in range(W):
        old, tap = _before(t - (W - 1) + j, row, begin, low, high, x, tail), taps[j, low:high]
        for d in range(high - low):
            z[d] += tap[d] * old[d]


@jit(fastmath={"contract"})
def _forward(
    start: int, stop: int, x: Array, taps: Array, bias: Array, tail: Array, first: Array, lengths: Array, silu: bool, y: Array
) -> None:
    D = x.shape[1]
    blocks = -(-D // BLOCK)
    z = np.empty(BLOCK, x.dtype)
    for piece in range(start, stop):
        row, low = piece // blocks, piece % blocks * BLOCK
        high, begin = min(low + BLOCK, D), first[row]
        for t in range(lengths[row]):
            _sum_taps(t, row, begin, low, high, x, taps, bias, tail, z)
            y_t = y[begin + t, low:high]
            if silu:
                for d in range(high - low):
                    y_t[d] = z[d] * sigmoid(z[d])
            else:
                for d in range(high - low):
                    y_t[d] = z[d]


@jit(fastmath={"contract"})
def _backward(
    start: int, stop: int, x: Array, taps: Array, bias: Array, tail: Array, first: Array, lengths: Array, silu: bool, dy: Array,
    dx: Array, dtail: Array, dtaps: Array, dbias: Array
) -> None:  # fmt: skip
    W, D = taps.shape
    blocks = -(-D // BLOCK)
    g = np.empty(BLOCK, x.dtype)
    for piece in range(start, stop):
        row, low = piece // blocks, piece % blocks * BLOCK
        high, begin, length = min(low + BLOCK, D), first[row], lengths[row]
        dtaps[row, :, low:high] = 0
        dbias[row, low:high] = 0
        dtail[row, :, low:high] = 0
        dx[begin : begin + length, low:high] = 0
        db = dbias[row, low:high]
        for t in range(length):
            dy_t = dy[begin + t, low:high]
            if silu:
                _sum_taps(t, row, begin, low, high, x, taps, bias, tail, g)
                for d in range(high - low):
                    z = g[d]
                    s = sigmoid(z)
                    g[d] = dy_t[d] * (s + z * (s - s * s))
            else:
                for d in range(high - low):
                    g[d] = dy_t[d]
            for d in range(high - low):
                db[d] += g[d]
            for j in range(W):
                past = t - (W - 1) + j
                old, dold = _before(past, row, begin, low, high, x, tail), _before(past, row, begin, low, high, dx, dtail)
                tap, dtap = taps[j, low:high], dtaps[row, j, low:high]
                for d in range(high - low):
                    dold[d] += tap[d] * g[d]
                for d in range(high - low):
                    dtap[d] += g[d] * old[d]
