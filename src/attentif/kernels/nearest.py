"""Reading a memory of past keys and values by nearest neighbours.

    y_t = Σ_{j ∈ N_t} α_j v_j         α = softmax over N_t of s q_tᵀ k_j
    N_t = the n places with the largest q_tᵀ k_j among those allowed          y_t = 0 where none is

    q        queries                                                 (B, H, T, K)
    k, v     keys and values of the memory                           (B, H, S, K)
    s        scale
    n        neighbours, `top`
    allowed  which places a query may choose from                    (B or 1, 1, T, S)

Wu et al. 2022, Memorizing Transformers, section 3.1. The memory is external: no gradient reaches its keys and values, and the choice
of neighbours has none either, so that with g the gradient of y,

    ∂q_t = s Σ_{j ∈ N_t} α_j (gᵀ v_j − gᵀ y_t) k_j

The search is exact: a block of scores by one product of matrices, then the n largest of each row. The neighbours are
read where they stand, forwards and backwards.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.exp import exp
from attentif.kernels.jit import compiled, inlined, share
from attentif.kernels.operation import differentiate, operation
from attentif.kernels.put import put


def nearest_weights(q: Tensor, k: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """α as a matrix (B, H, T, S), zero but for the neighbours: scores of every place, all but the largest left out."""
    scores = (scale * q @ k.mT).masked_fill(~allowed, float("-inf"))
    best = scores.topk(min(top, scores.shape[-1]), -1).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) & allowed
    weights = scores.masked_fill(~chosen, float("-inf")).softmax(-1)
    return torch.where(chosen.any(-1, keepdim=True), weights, 0.0)


def nearest_naive(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The equation."""
    return nearest_weights(q, k.detach(), allowed, scale=scale, top=top) @ v.detach()


def nearest(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The same, reading the neighbours alone: compiled loops on a CPU, gathered elsewhere."""
    if not q.is_cpu:
        return nearest_gathered(q, k, v, allowed, scale=scale, top=top)
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


def nearest_gathered(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, *, scale: float, top: int) -> Tensor:
    """The same in torch alone."""
    k, v = k.detach(), v.detach()
    with torch.no_grad():
        found = torch.where(allowed, q @ k.mT, float("-inf")).topk(min(top, k.shape[2]), -1, sorted=False)
        rows = torch.arange(k.shape[0] * k.shape[1], device=k.device).view(*k.shape[:2], 1, 1) * k.shape[2]
        places, present = found.indices + rows, found.values > float("-inf")  # places in the keys of all rows and heads, end to end
    near_k, near_v = (t.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape) for t in (k, v))
    scores = scale * torch.matmul(near_k, q[..., None]).squeeze(-1)
    weights = torch.where(present, scores, float("-inf")).softmax(-1)
    weights = torch.where(present.any(-1, keepdim=True), weights, 0.0)
    return torch.matmul(weights[..., None, :], near_v).squeeze(-2)


def _no_places(scores: Tensor, n: int) -> Tensor:
    return torch.empty(*scores.shape[:2], n, dtype=torch.int64)


def _run(kernel: Any, first: Tensor, *arrays: Tensor, **scalars: float) -> None:
    share(kernel, first.shape[0] * first.shape[1], *(t.detach().numpy() for t in (first, *arrays)), *scalars.values())


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


@compiled(fastmath={"nsz"})
def _search_loop(start: int, stop: int, scores: np.ndarray, allowed: np.ndarray, places: np.ndarray) -> None:
    """The n largest allowed scores of each row, in any order; −1 where there are fewer.

    Of 2n interleaved parts of the row, the n-th largest maximum is a bound that n scores reach at least, and few more do.
    """
    T, S, n = scores.shape[1], scores.shape[2], places.shape[2]
    heads, parts = scores.shape[0] // allowed.shape[0], 2 * n
    nowhere = scores.dtype.type(-np.inf)
    found, most, best = np.empty(S, scores.dtype), np.empty(parts, scores.dtype), np.empty(n, scores.dtype)
    for item in range(start, stop):
        row, t = item // T, item % T
        _masked(found, scores[row, t], allowed[row // heads, t], nowhere)
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


@inlined
def _masked(result: np.ndarray, x: np.ndarray, kept: np.ndarray, otherwise: Any) -> None:
    for s in range(len(x)):
        result[s] = x[s] if kept[s] else otherwise


@inlined
def _raise(most: np.ndarray, x: np.ndarray) -> None:
    for s in range(len(x)):
        most[s] = x[s] if x[s] > most[s] else most[s]


@inlined
def _product(x: np.ndarray, y: np.ndarray) -> Any:
    total = x[0] * y[0]
    for d in range(1, len(x)):
        total += x[d] * y[d]
    return total


@inlined
def _add(total: np.ndarray, weight: Any, x: np.ndarray) -> None:
    for d in range(len(total)):
        total[d] += weight * x[d]


@inlined
def _weigh(q: np.ndarray, k: np.ndarray, place: np.ndarray, scale: float, weights: np.ndarray) -> int:
    """How many neighbours there are; their weights."""
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


@compiled(fastmath={"contract", "reassoc"})
def _read_loop(start: int, stop: int, q: np.ndarray, k: np.ndarray, v: np.ndarray, places: np.ndarray, y: np.ndarray, scale: float) -> None:
    T = q.shape[1]
    weights, total = np.empty(places.shape[2], q.dtype), np.empty(q.shape[2], q.dtype)
    for item in range(start, stop):
        row, t = item // T, item % T
        place = places[row, t]
        count = _weigh(q[row, t], k[row], place, scale, weights)
        total[:] = 0
        for i in range(count):
            _add(total, weights[i], v[row, place[i]])
        put(y[row, t], total)


@compiled(fastmath={"contract", "reassoc"})
def _gradient_loop(
    start: int,
    stop: int,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    places: np.ndarray,
    g: np.ndarray,
    dq: np.ndarray,
    scale: float,
) -> None:
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
        put(dq[row, t], total)
