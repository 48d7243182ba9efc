"""FlashAttention's tiles with counted memory traffic (Dao et al. 2022).

    for each tile of keys j, for each tile of queries i:
        S = s Q_i K_jᵀ,   m' = max(m_i, rowmax S),   P = exp(S − m'),   z' = e^{m_i − m'} z_i + rowsum P
        Y_i ← e^{m_i − m'} Y_i + P V_j,   m_i ← m',   z_i ← z'                                      at the end  y = Y / z

    q, k, v  queries, keys, values                                    (B, H, T, K), (B, H, S, K), (B, H, S, V)
    M        numbers that fit in the fast memory (SRAM); a tile has M/4K keys, and as many queries but at most K
    L        m + log z, all that the backward pass needs to work P out again     (B, H, T)

Algorithms 1 and 4 there. The plain form writes and reads T × S matrices of scores and weights; tiles never do: about T·S·K²/M numbers move
instead of T·S. This is a model of a GPU for teaching; `kernels/attention.py` is the fast one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(slots=True)
class Traffic:
    """Numbers moved between slow and fast memory, and the peak of the fast one."""

    read: int = 0
    written: int = 0
    peak: int = 0

    @property
    def total(self) -> int:
        return self.read + self.written

    def load(self, *tiles: Tensor) -> tuple[Tensor, ...]:
        """Copy tiles to fast memory."""
        self.read += sum(tile.numel() for tile in tiles)
        return tuple(tile.clone() for tile in tiles)

    def store(self, place: Tensor, tile: Tensor) -> None:
        self.written += tile.numel()
        place.copy_(tile)

    def hold(self, *tiles: Tensor) -> None:
        """Record what is in fast memory at the same time."""
        self.peak = max(self.peak, sum(tile.numel() for tile in tiles))


_current: ContextVar[Traffic | None] = ContextVar("traffic", default=None)


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count the traffic of calls inside: `with count_traffic() as traffic: ...; traffic.total`."""
    traffic = Traffic()
    token = _current.set(traffic)
    try:
        yield traffic
    finally:
        _current.reset(token)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False) -> Tensor:
    """The naive twin: scores, weights and output are whole matrices in slow memory."""
    traffic = _current.get() or Traffic()
    scores = scale * q @ k.mT
    traffic.read += q.numel() + k.numel() + scores.numel()  # and the scores again, for the softmax
    traffic.written += scores.numel()
    if causal:
        scores = scores.masked_fill(_future(torch.arange(q.shape[2]), torch.arange(k.shape[2])), float("-inf"))
    weights = scores.softmax(-1)
    traffic.written += weights.numel()
    traffic.read += weights.numel() + v.numel()
    y = weights @ v
    traffic.written += y.numel()
    return y


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, fast: int, causal: bool = False) -> Tensor:
    """The same by tiles that fit in a fast memory of `fast` numbers; differentiable by tiles too."""
    y: Tensor = _Tiled.apply(q, k, v, scale, fast, causal)
    return y


def tile_sizes(width: int, fast: int) -> tuple[int, int]:
    """Return the numbers of queries and keys of a tile."""
    keys = fast // (4 * width)
    if keys < 1:
        raise ValueError(f"a fast memory of {fast} numbers does not hold a query, a key, a value and an output of width {width}")
    return min(keys, width), keys


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, fast: int, causal: bool) -> Tensor:
        traffic = _current.get() or Traffic()
        y, top, total = q.new_zeros(*q.shape[:-1], v.shape[-1]), q.new_full(q.shape[:-1], float("-inf")), q.new_zeros(q.shape[:-1])
        plan = _Plan.of(q, k, v, fast, causal)
        for head in plan.heads:
            for keys in plan.keys:
                K, V = traffic.load(k[head][keys], v[head][keys])
                for queries in plan.queries(keys):
                    Q, Y, m, z = traffic.load(q[head][queries], y[head][queries], top[head][queries], total[head][queries])
                    S = plan.scores(Q, K, queries, keys, scale)
                    new = torch.maximum(m, S.amax(-1))
                    P, shrink = torch.exp(S - new[:, None]), torch.exp(m - new)
                    traffic.hold(K, V, Q, Y, P, m, z)
                    traffic.store(y[head][queries], shrink[:, None] * Y + P @ V)
                    traffic.store(top[head][queries], new)
                    traffic.store(total[head][queries], shrink * z + P.sum(-1))
        y /= total[..., None]
        ctx.save_for_backward(q, k, v, y, top + total.log())
        ctx.scale, ctx.plan, ctx.traffic = scale, plan, traffic
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, y, L = ctx.saved_tensors
        plan, traffic, scale = ctx.plan, ctx.traffic, ctx.scale
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        D = (dy * y).sum(-1)
        for head in plan.heads:
            for keys in plan.keys:
                K, V = traffic.load(k[head][keys], v[head][keys])
                dK, dV = torch.zeros_like(K), torch.zeros_like(V)
                for queries in plan.queries(keys):
                    Q, dY, dQ, lse, d = traffic.load(*(x[head][queries] for x in (q, dy, dq, L, D)))
                    P = torch.exp(plan.scores(Q, K, queries, keys, scale) - lse[:, None])
                    dS = P * (dY @ V.mT - d[:, None])
                    dV += P.mT @ dY
                    dK += scale * dS.mT @ Q
                    traffic.store(dq[head][queries], dQ + scale * dS @ K)
                traffic.store(dk[head][keys], dK)
                traffic.store(dv[head][keys], dV)
        return dq, dk, dv, None, None, None


@dataclass(frozen=True, slots=True)
class _Plan:
    """The tiles."""

    heads: list[tuple[int, int]]
    keys: list[slice]
    rows: list[slice]
    causal: bool
    ahead: int  # keys before the first query: the last query sees the last key

    @classmethod
    def of(cls, q: Tensor, k: Tensor, v: Tensor, fast: int, causal: bool) -> "_Plan":
        rows, columns = tile_sizes(max(q.shape[-1], v.shape[-1]), fast)
        heads = [(b, h) for b in range(q.shape[0]) for h in range(q.shape[1])]
        return cls(heads, _tiles(k.shape[2], columns), _tiles(q.shape[2], rows), causal, k.shape[2] - q.shape[2])

    def queries(self, keys: slice) -> list[slice]:
        """Return the query tiles that see some of these keys."""
        return [rows for rows in self.rows if not self.causal or rows.stop - 1 + self.ahead >= keys.start]

    def scores(self, Q: Tensor, K: Tensor, rows: slice, keys: slice, scale: float) -> Tensor:
        S = scale * Q @ K.mT
        if not self.causal:
            return S
        places = torch.arange(rows.start, rows.stop) + self.ahead
        unseen = torch.finfo(S.dtype).min / 2  # not −∞: a row of a tile may see none of its keys
        return S.masked_fill(_future(places, torch.arange(keys.start, keys.stop)), unseen)


def _future(queries: Tensor, keys: Tensor) -> Tensor:
    """(T, S): whether each key comes after the query."""
    return keys > queries[:, None]


def _tiles(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
