"""Attention over the nearest neighbours in an external memory of keys and values.

    y_t = Σ_{j ∈ N_t} α_j v_j         α = softmax over N_t of s q_tᵀ k_j
    N_t = the n positions with the largest q_tᵀ k_j among those allowed       y_t = 0 where none is

    q        queries                                                 (B, H, T, K)
    k, v     keys and values of the memory                           (B, H, S, K)
    s        scale
    n        neighbours, `top`
    allowed  which positions a query may choose from                 (B or 1, 1, T, S)

Wu et al. 2022, Memorizing Transformers, section 3.1. The memory is external: its keys, its values and the choice of neighbours get no
gradient, so with g the gradient of y,

    ∂q_t = s Σ_{j ∈ N_t} α_j (gᵀ v_j − gᵀ y_t) k_j

The search is exact: a block of scores by one matrix product, then the n largest of each row.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.copy import copy_into
from attentif.kernels.exp import exp
from attentif.kernels.jit import Array, inline, jit, parallel_for
from attentif.kernels.operation import differentiate, operation


def nearest_weights(q: Tensor, k: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """α as a matrix (B, H, T, S), zero except for the neighbours."""
    scores = (scale * q @ k.mT).masked_fill(~allowed, float("-inf"))
    best = scores.topk(min(top, scores.shape[-1]), -1).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) & allowed
    weights = scores.masked_fill(~chosen, float("-inf")).softmax(-1)
    return torch.where(chosen.any(-1, keepdim=True), weights, 0.0)


def nearest_naive(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The equation."""
    return nearest_weights(q, k.detach(), allowed, scale=scale, top=top) @ v.detach()


def nearest(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The same, reading only the neighbours: compiled loops on CPU, gathers elsewhere."""
    if not q.is_cpu:
        return nearest_gather(q, k, v, allowed, scale=scale, top=top)
    k, v = k.detach(), v.detach()
    with torch.no_grad():
        scores = (q @ k.mT).flatten(0, 1)
        allowed = allowed.squeeze(1).contiguous()
    arrays = [t.flatten(0, 1).contiguous() for t in (q, k, v)]
    n = min(top, k.shape[2])
    if (torch.is_grad_enabled() and q.requires_grad) or torch.compiler.is_compiling():
        y: Tensor = _read(*arrays, _search(scores, allowed, n), scale)
    else:
        places, y = _no_places(scores, n), torch.empty_like(arrays[0])
        _run(_search_loop, scores, allowed, places)
        _run(_read_loop, *arrays, places, y, scale=scale)
    return y.unflatten(0, q.shape[:2])


def nearest_gather(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The same in torch alone."""
    k, v = k.detach(), v.detach()
    with torch.no_grad():
        found = torch.where(allowed, q @ k.mT, float("-inf")).topk(min(top, k.shape[2]), -1, sorted=False)
        rows = torch.arange(k.shape[0] * k.shape[1], device=k.device).view(*k.shape[:2], 1, 1) * k.shape[2]
        places, present = found.indices + rows, found.values > float("-inf")  # positions in the keys of all rows and heads, concatenated
    near_k, near_v = (t.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape) for t in (k, v))
    scores = scale * torch.matmul(near_k, q[..., None]).squeeze(-1)
    weights = torch.where(present, scores, float("-inf")).softmax(-1)
    weights = torch.where(present.any(-1, keepdim=True), weights, 0.0)
    return torch.matmul(weights[..., None, :], near_v).squeeze(-2)


def _no_places(scores: Tensor, n: int) -> Tensor:
    return torch.empty(*scores.shape[:2], n, dtype=torch.int64)


def _run(kernel: Any, first: Tensor, *arrays: Tensor, **scalars: float) -> None:
    parallel_for(kernel, first.shape[0] * first.shape[1], *(t.detach().numpy() for t in (first, *arrays)), *scalars.values())


@operation("nearest_search", fake=lambda scores, allowed, n: scores.new_empty(*scores.shape[:2], n, dtype=torch.int64))
def _search(scores: Tensor, allowed: Tensor, n: int) -> Tensor:
    places = _no_places(scores, n)
    _run(_search_loop, scores, allowed, places)
    return places


@operation("nearest_read", fake=lambda q, *_: torch.empty_like(q))
def _read(q: Tensor, k: Tensor, v: Tensor, places: Tensor, scale: float) -> Tensor:
    y = torch.empty_like(q)
    _run(_read_loop, q, k, v, places, y, scale=scale)
    return y


@operation("nearest_read_backward", fake=lambda q, *_: torch.empty_like(q))
def _gradient(q: Tensor, k: Tensor, v: Tensor, places: Tensor, g: Tensor, scale: float) -> Tensor:
    dq = torch.empty_like(q)
    _run(_gradient_loop, q, k, v, places, g, dq, scale=scale)
    return dq


differentiate(
    _read,
    lambda q, k, v, places, scale, g: _gradient(q, k, v, places, g, scale),
    save=lambda q, k, v, places, scale, y: (q, k, v, places, scale),
)


@jit(fastmath={"nsz"})
def _search_loop(start: int, stop: int, scores: Array, allowed: Array, places: Array) -> None:
    """Find the n largest allowed scores of each row, in any order; −1 where there are fewer.

    Of 2n interleaved parts of the row, the n-th largest maximum is a bound that n scores reach at least, and few more do.
    """
    T, S, n = scores.shape[1], scores.shape[2], places.shape[2]
    heads, parts = scores.shape[0] // allowed.shape[0], 2 * n
    nowhere = scores.dtype.type(-np.inf)
    found, most, best = np.empty(S, scores.dtype), np.empty(parts, scores.dtype), np.empty(n, scores.dtype)
    for item in range(start, stop):
        row, t = item // T, item % T
        _mask_into(found, scores[row, t], allowed[row // heads, t], nowhere)
        bound = nowhere
        if 2 * parts < S:
            most[:] = nowhere
            for begin in range(0, S, parts):
                _raise(most, found[begin : begin + parts])
            bound = np.sort(most)[n]
        place, count, least = places[row, t], 0, 0  # neighbours so far, and which of them is the furthest
        for s in range(S):
            if found[s] >= bound and found[s] > nowhere:
                if count < n:
                    best[count], place[count] = found[s], s
                    least = count if best[count] < best[least] else least
                    count += 1
                elif found[s] > best[least]:
                    best[least], place[least] = found[s], s
                    for other in range(n):
                        least = other if best[other] < best[least] else least
        for missing in range(count, n):
            place[missing] = -1


@inline
def _mask_into(result: Array, x: Array, kept: Array, otherwise: Any) -> None:
    for s in range(len(x)):
        result[s] = x[s] if kept[s] else otherwise


@inline
def _raise(most: Array, x: Array) -> None:
    for s in range(len(x)):
        most[s] = x[s] if x[s] > most[s] else most[s]


@inline
def _product(x: Array, y: Array) -> Any:
    total = x[0] * y[0]
    for d in range(1, len(x)):
        total += x[d] * y[d]
    return total


@inline
def _add(total: Array, weight: Any, x: Array) -> None:
    for d in range(len(total)):
        total[d] += weight * x[d]


@inline
def _weigh(q: Array, k: Array, place: Array, scale: float, weights: Array) -> int:
    """Compute the neighbours' weights; return their number."""
    count = 0
    while count < len(place) and place[count] >= 0:
        weights[count] = scale * _product(q, k[place[count]])
        count += 1
    if count:
        most = weights[:count].max()
        total = most - most
        for i in range(count):
            weights[i] = exp(weights[i] - most)
            total += weights[i]
        for i in range(count):
            weights[i] /= total
    return count


@jit(fastmath={"contract", "reassoc"})
def _read_loop(start: int, stop: int, q: Array, k: Array, v: Array, places: Array, y: Array, scale: float) -> None:
    T = q.shape[1]
    weights, total = np.empty(places.shape[2], q.dtype), np.empty(q.shape[2], q.dtype)
    for item in range(start, stop):
        row, t = item // T, item % T
        place = places[row, t]
        count = _weigh(q[row, t], k[row], place, scale, weights)
        total[:] = 0
        for i in range(count):
            _add(total, weights[i], v[row, place[i]])
        copy_into(y[row, t], total)


@jit(fastmath={"contract", "reassoc"})
def _gradient_loop(start: int, stop: int, q: Array, k: Array, v: Array, places: Array, g: Array, dq: Array, scale: float) -> None:
    T = q.shape[1]
    weights, toward = np.empty(places.shape[2], q.dtype), np.empty(places.shape[2], q.dtype)
    total = np.empty(q.shape[2], q.dtype)
    for item in range(start, stop):
        row, t = item // T, item % T
        place = places[row, t]
        count = _weigh(q[row, t], k[row], place, scale, weights)
        total[:] = 0
        mean = weights[0] - weights[0]
        for i in range(count):
            toward[i] = _product(g[row, t], v[row, place[i]])
            mean += weights[i] * toward[i]
        for i in range(count):
            _add(total, scale * weights[i] * (toward[i] - mean), k[row, place[i]])
        copy_into(dq[row, t], total)
