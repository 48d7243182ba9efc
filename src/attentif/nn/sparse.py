"""Sparse attention over long rows in linear time and memory: no (T, S) mask is built.

Ordinary queries are computed in blocks, each with the keys of its window, the global keys and its random blocks (`kernels/banded.py`);
the few global queries read the whole row. A key selected for several reasons counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import torch
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.attention import attention
from attentif.kernels.banded import block_sparse_attention, window_attention
from attentif.nn.pattern import (
    GlobalPattern,
    PatternConfig,
    PatternQuery,
    RandomPattern,
    ShortPattern,
    WindowPattern,
    global_tokens,
    log_weights,
)

SHORTEST = 256  # tokens below which the full mask is faster for any pattern
FEWEST, MOST = 16, 128  # queries of a block: fewer underuse the fused kernel, more waste masked keys


@dataclass(frozen=True, slots=True)
class Scores:
    """Options of the attention scores."""

    scale: float
    softcap: float | None
    dropout: float
    bias: nn.Module | None  # of positions; it depends on the distance alone
    sinks: Tensor | None = None  # (H, 1)

    def position_bias(self, q_pos: Tensor, k_pos: Tensor, dtype: torch.dtype) -> Tensor | None:
        """The bias (..., H, T, S) between these positions."""
        return None if self.bias is None else self.bias(q_pos, k_pos).to(dtype)


@dataclass(frozen=True, slots=True)
class SparsePlan:
    """Which keys each block of T queries reads among S keys."""

    block: int
    everywhere: Tensor  # (C,): positions of the global tokens
    own: Tensor | None  # (H, M, R): random blocks of keys of each block of queries; 0 where there is none
    mask: Tensor  # (M, 1 or H, 1 or block, keys)
    q_pos: Tensor  # (M, block)
    k_pos: Tensor  # (M, 1 or H, keys)
    weights: Tensor | None  # like k_pos: ln of how many times each counts


class Sparse:
    """A pattern, compiled to blocks of queries and keys."""

    def __init__(self, pattern: Sequence[PatternConfig], *, causal: bool, layer: int, heads: int) -> None:
        self.pattern, self.causal, self.layer, self.heads = pattern, causal, layer, heads
        self.windows = [entry for entry in pattern if isinstance(entry, WindowPattern)]
        self.globals = [entry for entry in pattern if isinstance(entry, GlobalPattern)]
        self.randoms = [entry for entry in pattern if isinstance(entry, RandomPattern)]
        if len(sizes := {entry.block for entry in self.randoms}) > 1:
            raise ConfigError(f"random blocks of {' and '.join(map(str, sorted(sizes)))} tokens in one pattern; give them one size")
        for entry in self.randoms:
            if len(entry.table) not in (0, 1, heads):
                raise ConfigError(
                    f"the table of random blocks has {len(entry.table)} heads, the attention {heads}; give it as many, or one"
                )
        shorts = [entry for entry in pattern if isinstance(entry, ShortPattern)]
        self.short = max((entry.up_to for entry in shorts), default=0)  # tokens up to which everyone sees everyone
        if causal and any(entry.last for entry in self.globals):
            raise ConfigError("causal attention cannot have global tokens counted from the end of a sequence")
        if causal and shorts:
            raise ConfigError("causal attention cannot have a pattern for short sequences")
        self.known = len(self.windows) + len(self.globals) + len(self.randoms) + len(shorts) == len(pattern)  # to blocks
        self.slides = all(entry.block == 1 for entry in self.windows)  # what is seen depends on the distance alone
        self.only_windows = self.slides and len(self.windows) == len(pattern) > 0

    def reach(self, block: int) -> tuple[int, int]:
        """Number of keys before and after a block of queries that its windows see."""
        sides = [entry.reach(block, self.causal) for entry in self.windows] or [(0, 0)]
        return max(left for left, _ in sides), max(right for _, right in sides)

    def block(self, length: int) -> int:
        """Choose the block size: that of the random blocks, else half of the window."""
        if self.randoms:
            return self.randoms[0].block
        unit = lcm(*(entry.block for entry in self.windows))
        half = sum(self.reach(unit)) // 2
        wanted = min(max(1 << half.bit_length(), FEWEST), MOST, max(length // 4, 1))
        return max(wanted // unit, 1) * unit

    def pays(self, length: int) -> bool:
        """Whether blocks beat the full mask: a query would meet at most half of the keys."""
        block = self.block(length)
        shared = sum(len(entry.at) + (entry.first + entry.last) * entry.block for entry in self.globals)
        own = sum(max((len(row) for rows in e.table for row in rows), default=e.blocks) for e in self.randoms) * block
        return self.known and length >= max(SHORTEST, self.short + 1) and 2 * (block + sum(self.reach(block)) + shared + own) <= length

    def plan(self, T: int, S: int, marks: Tensor | None, device: torch.device) -> SparsePlan | None:
        """Build the plan of a row; None for a plain sliding window. `marks` (S,)."""
        places = torch.arange(S, device=device)
        is_global = global_tokens(self.pattern, places, marks, torch.tensor(S, device=device))
        everywhere = places[:0] if is_global is None else is_global.nonzero().squeeze(1)
        if self.slides and self.windows and not self.randoms and not len(everywhere):
            return None
        Q = self.block(T)
        begin = (S - T) // Q * Q
        first = torch.arange(begin, S, Q, device=device)  # (M,): the first position of each block of queries
        q_pos = first[:, None] + torch.arange(Q, device=device)
        left, right = self.reach(Q)
        lowest, highest = (first - left)[:, None, None], (first + Q + right)[:, None, None]
        near = lowest + torch.arange(left + Q + right, device=device)  # (M, 1, keys)
        known = (near >= 0) & (near < S)
        at = near.clamp(0, S - 1)
        own, far = self.draw_blocks(begin // Q, len(first), S, Q, device)
        seen = self.window_mask(q_pos, near, S, Q)
        if is_global is not None:
            seen = seen | is_global[at][..., None, :]
        if own is not None and (both := ((near // Q)[..., None] == own.transpose(0, 1)[:, :, None]).any(-1)).any():
            seen = seen | both[..., None, :]  # a random block that lies within the window's reach is seen there
        masks, keys = [seen & known[..., None, :]], [near]
        beyond = lambda k: (k < lowest) | (k >= highest)
        if len(everywhere):
            keys.append(everywhere.expand(len(first), 1, -1))
            masks.append(beyond(keys[-1])[..., None, :])
        if own is not None and far is not None:
            keys.append(far)
            fresh = (far >= 0) & (far < S) & beyond(far)
            fresh = fresh if is_global is None else fresh & ~is_global[far.clamp(0, S - 1)]
            fresh = fresh[:, :1] if bool((fresh == fresh[:, :1]).all()) else fresh
            masks.append(fresh[..., None, :])
        if self.causal:
            masks = [mask & (k[..., None, :] <= q_pos[:, None, :, None]) for mask, k in zip(masks, keys, strict=True)]
        own = None if own is None else own.clamp(min=0)
        k_pos = _concat_broadcast(keys, 2)
        weights = log_weights(self.pattern, k_pos, None if marks is None else marks[k_pos.clamp(0, S - 1)], torch.tensor(S, device=device))
        return SparsePlan(Q, everywhere, own, _concat_broadcast(masks, 3), q_pos, k_pos, weights)

    def window_mask(self, q_pos: Tensor, k_pos: Tensor, S: int, block: int) -> Tensor:
        """(M, 1, 1 or block, keys): keys seen by the windows; one row if equal for all queries."""
        if not self.windows:
            return torch.zeros(len(q_pos), 1, 1, k_pos.shape[-1], dtype=torch.bool, device=q_pos.device)
        alike = all(entry.block % block == 0 for entry in self.windows)
        asked = PatternQuery(q_pos=q_pos[:, None, : 1 if alike else block], k_pos=k_pos, lengths=torch.tensor([S]))
        seen = self.windows[0].allows(asked)
        for entry in self.windows[1:]:
            seen = seen | entry.allows(asked)
        return seen

    def draw_blocks(self, begin: int, count: int, S: int, block: int, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Random blocks (H, M, R) of `count` query blocks from `begin`, and their positions; −1: none."""
        if not self.randoms:
            return None, None
        tables = [entry.draw_blocks(S, self.causal, self.layer, self.heads)[:, begin : begin + count] for entry in self.randoms]
        own = torch.cat(tables, 2).to(device)
        if not own.numel():
            return None, None
        repeated = (own[..., :, None] == own[..., None, :]).tril(-1).any(-1)  # drawn by an earlier entry too
        own = own.masked_fill(repeated, -1)
        places = own.transpose(0, 1)[..., None] * block + torch.arange(block, device=device)
        return own, torch.where(own.transpose(0, 1)[..., None] < 0, -1, places).flatten(2)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, plan: SparsePlan | None, scores: Scores, everywhere: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Attend in one row: (H, T, K) queries, the last T of (G, S, K) keys, to (T, H, K)."""
        T, S = q.shape[1], k.shape[1]
        if not T:
            return q.transpose(0, 1)
        options: Any = {"scale": scores.scale, "softcap": scores.softcap, "sinks": scores.sinks, "dropout": scores.dropout}
        if self.short >= S:
            places = torch.arange(S, device=q.device)
            y = attention(q[None], k[None], v[None], bias=scores.position_bias(places[S - T :], places, q.dtype), **options)
            return y[0].transpose(0, 1)
        if plan is None:
            left, right = self.reach(1)
            offsets = torch.arange(left + right + 1, device=q.device)
            bias = scores.position_bias(offsets[left : left + 1], offsets, q.dtype)  # (H, 1, offsets)
            bias = None if bias is None else bias.squeeze(-2)
            return window_attention(q, k, v, left=left, right=right, block=self.block(T), bias=bias, **options)
        left, right = self.reach(plan.block)
        shared = plan.everywhere if len(plan.everywhere) else None
        y = block_sparse_attention(
            q,
            k,
            v,
            left=left,
            right=right,
            block=plan.block,
            shared=shared,
            own=plan.own,
            mask=plan.mask,
            bias=self.bias(plan, scores, q.dtype),
            **options,
        )
        at = plan.everywhere[plan.everywhere >= S - T]
        if not len(at):
            return y
        places = torch.arange(S, device=q.device)
        mask = places <= at[:, None] if self.causal else None
        queries, (k, v) = q.index_select(1, at - (S - T)), everywhere or (k, v)
        dense = attention(queries[None], k[None], v[None], mask=mask, bias=scores.position_bias(at, places, q.dtype), **options)
        return y.index_copy(0, at - (S - T), dense[0].transpose(0, 1))

    def bias(self, plan: SparsePlan, scores: Scores, dtype: torch.dtype) -> Tensor | None:
        """(M, H, block, keys): positional bias and log weights."""
        weights = None if plan.weights is None else plan.weights[:, :, None].to(dtype)
        if scores.bias is None:
            return None if weights is None else weights.expand(-1, self.heads, plan.block, -1)
        if plan.k_pos.shape[1] == 1:
            bias = scores.bias(plan.q_pos, plan.k_pos[:, 0]).to(dtype)
        else:
            bias = torch.stack([scores.bias(plan.q_pos, plan.k_pos[:, head])[:, head] for head in range(self.heads)], 1).to(dtype)
        return bias if weights is None else bias + weights


def _concat_broadcast(parts: list[Tensor], axes: int) -> Tensor:
    """Concatenate along the last axis, broadcasting the other axes."""
    shape = torch.broadcast_shapes(*(part.shape[:axes] for part in parts))
    return torch.cat([part.expand(*shape, -1) for part in parts], -1)
