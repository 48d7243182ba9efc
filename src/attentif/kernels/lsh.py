"""Locality-sensitive hashing: tokens sorted by buckets of similar directions.

    h(x) = argmax [x Rᵀ; −x Rᵀ],     R drawn from N(0, 1)           (Andoni et al. 2015; Kitaev et al. 2020, section 2)

    x          vectors; their lengths do not matter                                                          (N, H, K)
    R          rotations: for each head and round, half as many directions as buckets                        (H, R, K, buckets / 2)
    factors    several small hashes in place of a large one: bucket = h₁ + f₁ (h₂ + f₂ (...)), each with directions of its own; their
               cost is that of f₁ + f₂ + ... buckets, their resolution that of f₁ f₂ ...
    order      tokens of each sequence sorted by bucket, then place, in every round                          (H, R, T)

Attention then looks only at the tokens nearby in this order: `kernels/chunked.py`, which says how `rows` describes sequences that stand
concatenated. Buckets and orders are one-dimensional: those of each sequence, (H, R, room), follow those of the one before.
"""

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.jit import Array, jit, parallel_for

Factors = tuple[int, ...]


def bucket_factors(length: int, chunk: int) -> Factors:
    """Return bucket counts for half a chunk per bucket: a power of two, in two factors if large."""
    power = max((2 * (length // chunk)).bit_length() - 1, 1)
    return (2**power,) if 2**power <= 2 * chunk else (2 ** (power // 2), 2 ** (power - power // 2))


def lsh_buckets_naive(x: Tensor, rotations: Tensor, factors: Factors) -> Tensor:
    """The equation, for one sequence: buckets (H, R, T) of vectors (T, H, K)."""
    turned = torch.einsum("thk,hrks->hrts", x, rotations)
    buckets, scale = torch.zeros_like(turned[..., 0], dtype=torch.int32), 1
    for part, factor in zip(turned.split([factor // 2 for factor in factors], -1), factors, strict=True):
        buckets += scale * torch.cat([part, -part], -1).argmax(-1).int()
        scale *= factor
    return buckets


def lsh_order_naive(buckets: Tensor) -> Tensor:
    """The tokens of one sequence by bucket, then position: (H, R, T) both."""
    return buckets.argsort(dim=-1, stable=True).int()


@torch.no_grad()
def lsh_buckets(x: Tensor, rotations: Tensor, factors: Factors, rows: Tensor, out: Tensor) -> None:
    """The same for the new tokens of all rows, written into `out` (N·H·R,)."""
    if x.is_cpu:
        arrays = (t.detach().contiguous().numpy() for t in (x, rotations, rows))
        parallel_for(_hash, len(rows) * x.shape[1], *arrays, np.asarray(factors), out.numpy())
        return
    for begin, length, _, start, room in rows.tolist():
        part = _part(out, begin, room, rotations.shape[0], rotations.shape[1])
        part[..., start:length] = lsh_buckets_naive(x[begin + start : begin + length], rotations, factors)


@torch.no_grad()
def lsh_order(buckets: Tensor, rows: Tensor, heads: int, rounds: int, count: int) -> Tensor:
    """The tokens of each row by bucket, then position; buckets are below `count`."""
    order = torch.empty_like(buckets)
    if buckets.is_cpu:
        parallel_for(_sort, len(rows) * heads, buckets.numpy(), rows.contiguous().numpy(), heads, rounds, count, order.numpy())
        return order
    for begin, length, _, _, room in rows.tolist():
        part = _part(buckets, begin, room, heads, rounds)[..., :length]
        _part(order, begin, room, heads, rounds)[..., :length] = lsh_order_naive(part)
    return order


def _part(flat: Tensor, begin: int, room: int, heads: int, rounds: int) -> Tensor:
    """View one sequence's (H, R, room) of the flat tensor."""
    each = heads * rounds
    return flat[begin * each : (begin + room) * each].view(heads, rounds, room)


@jit(fastmath={"contract"})
def _hash(start: int, stop: int, x: Array, rotations: Array, rows: Array, factors: Array, out: Array) -> None:
    H, R, K, S = rotations.shape
    turned = np.empty((4, S), x.dtype)  # four tokens at a time read each direction once
    for item in range(start, stop):
        row, h = item // H, item % H
        begin, length, _, first, room = rows[row]
        buckets = out[begin * H * R : (begin + room) * H * R].reshape((H, R, room))[h]
        for turn in range(R):
            for place in range(first, length, 4):
                tokens = min(4, length - place)
                at = begin + place
                x0, x1 = x[at, h], x[at + min(1, tokens - 1), h]
                x2, x3 = x[at + min(2, tokens - 1), h], x[at + min(3, tokens - 1), h]
                t0, t1, t2, t3 = turned[0], turned[1], turned[2], turned[3]
                for s in range(S):
                    t0[s] = t1[s] = t2[s] = t3[s] = 0
                for k in range(K):
                    direction = rotations[h, turn, k]
                    a0, a1, a2, a3 = x0[k], x1[k], x2[k], x3[k]
                    for s in range(S):
                        t0[s] += a0 * direction[s]
                        t1[s] += a1 * direction[s]
                        t2[s] += a2 * direction[s]
                        t3[s] += a3 * direction[s]
                for token in range(tokens):
                    bucket, scale, part = 0, 1, 0
                    for factor in factors:
                        half = factor // 2
                        best, most = 0, turned[token, part]
                        for s in range(half):
                            if turned[token, part + s] > most:
                                best, most = s, turned[token, part + s]
                        for s in range(half):
                            if -turned[token, part + s] > most:
                                best, most = half + s, -turned[token, part + s]
                        bucket += scale * best
                        scale *= factor
                        part += half
                    buckets[turn, place + token] = bucket


@jit()
def _sort(start: int, stop: int, buckets: Array, rows: Array, H: int, R: int, count: int, order: Array) -> None:
    """Stable counting sort by bucket."""
    ends = np.empty(count + 1, np.int64)
    for item in range(start, stop):
        row, h = item // H, item % H
        begin, length, _, _, room = rows[row]
        own = buckets[begin * H * R : (begin + room) * H * R].reshape((H, R, room))[h]
        places = order[begin * H * R : (begin + room) * H * R].reshape((H, R, room))[h]
        for turn in range(R):
            ends[:] = 0
            for place in range(length):
                ends[own[turn, place] + 1] += 1
            for bucket in range(count):
                ends[bucket + 1] += ends[bucket]
            for place in range(length):
                bucket = own[turn, place]
                places[turn, ends[bucket]] = place
                ends[bucket] += 1
