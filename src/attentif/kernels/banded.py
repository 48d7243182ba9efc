"""Sliding-window and block-sparse attention, in time and memory O(T·w) instead of O(T²).

    y_i = Σ_j a_ij v_j,     a_i = softmax of c(s q_i·k_j + b_ij) over the keys j that query i may see

    q        queries of one sequence; query i stands beside key S − T + i      (H, T, K)
    k, v     its keys and values; each serves H/G queries' heads               (G, S, K), (G, S, V)
    s, c, b  scale, soft cap, bias of positions: as in `kernels/attention.py`

Window: −left ≤ j − i ≤ right (Beltagy et al. 2020, section 3.1). Queries are taken by blocks of Q. A block needs the Q + left + right
keys around it, read where they stand: the neighbourhoods of all blocks are one overlapping view of the keys. Away from the two ends
all blocks share one mask (Q, Q + left + right), so a segment of many blocks is one call of the fused kernel, as is each end.

Gathered: besides its neighbourhood, each block reads keys from elsewhere: a few that all blocks read (global tokens), and blocks of keys
of its own, for each head (Zaheer et al. 2020, appendix D). They are copied beside each other, and a mask says what is seen: every key
is seen once, whatever the number of reasons, so that the softmax is over the union.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.kernels.attention import attention, attention_naive

SEGMENT = 1024  # queries of one call: the gradients of their neighbourhoods are folded before those of the next are made


def window_attention_naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    left: int,
    right: int,
    scale: float,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """The definition, (T, H, V): a band of the full matrix, bias (H, left + right + 1) by offset."""
    T, S = q.shape[1], k.shape[1]
    mask, spread = _band(T, S, T - S, left, right, bias, q.device)
    y = attention_naive(q[None], k[None], v[None], scale=scale, mask=mask, bias=spread, softcap=softcap, sinks=sinks)
    return y[0].transpose(0, 1)


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    left: int,
    right: int,
    block: int,
    scale: float,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The same by blocks of `block` queries."""
    T, S, Q = q.shape[1], k.shape[1], block
    before, reach = S - T, left + Q + right
    begin = min(max(0, -(-(left - before) // Q)), T // Q)  # the first block whose neighbourhood lies within the row, and one past the last
    end = max(begin, (T - right) // Q)
    step = max(SEGMENT // Q, 1)
    segments = [(first, min(first + step, end)) for first in range(begin, end, step)]
    # queries [from, to) of each part, and the keys that they need
    queries = [(0, begin * Q), *((first * Q, last * Q) for first, last in segments), (end * Q, T)]
    keys = [(max(0, before + first - left), min(S, before + last + right)) for first, last in queries]
    parts_of_q = q.split([last - first for first, last in queries], 1)
    parts = []
    for own, near_k, near_v, (first, last), (lowest, _) in zip(
        parts_of_q, _overlap_spans(k, keys), _overlap_spans(v, keys), queries, keys, strict=True
    ):
        if first == last:
            continue
        middle = begin * Q <= first and last <= end * Q
        blocks, step = (own.unflatten(1, (-1, Q)).transpose(0, 1), Q) if middle else (own[None], last - first)
        near_k, near_v = (_Unfolded.apply(t, Q, reach) if middle else t[None] for t in (near_k, near_v))
        mask, spread = _band(step, near_k.shape[2], lowest - before - first, left, right, bias, q.device)
        y = _attend(blocks, near_k, near_v, mask, spread, scale=scale, softcap=softcap, sinks=sinks, dropout=dropout)
        parts.append(y.flatten(0, 1))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    left: int,
    right: int,
    block: int,
    shared: Tensor | None,
    own: Tensor | None,
    mask: Tensor,
    scale: float,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention (T, H, V) by blocks of queries that start at multiples of `block`.

    A block reads [its own positions, `left` before and `right` after | the positions `shared` (C,) | the blocks of keys `own` (H, M, R)],
    M being the number of blocks of queries; `mask` (M, 1 or H, 1 or block, keys) and `bias` (M, H, block, keys) are in this order, and
    False where there is no such key.
    """
    H, T, S, Q = q.shape[0], q.shape[1], k.shape[1], block
    begin = (S - T) // Q * Q  # the first block may begin before the first query
    M = -(-(S - begin) // Q)
    step = max(SEGMENT // Q, 1)
    segments = [(first, min(first + step, M)) for first in range(0, M, step)]
    sizes = [last - first for first, last in segments]
    queries = F.pad(q, (0, 0, S - T - begin, begin + M * Q - S)).unflatten(1, (M, Q)).transpose(0, 1).split(sizes)
    biases = [None] * len(sizes) if bias is None else bias.split(sizes)

    def read(t: Tensor) -> Iterator[Tensor]:
        """Yield (blocks, H, keys, K) of each segment."""
        t = t if t.shape[0] == H else t.repeat_interleave(H // t.shape[0], 0)
        front = max(0, left - begin)
        around = F.pad(t, (0, 0, front, begin + M * Q + right - S))
        offset = begin + front - left
        near = _overlap_spans(around, [(offset + first * Q, offset + last * Q + left + right) for first, last in segments])
        for_all = None if shared is None else t.index_select(1, shared)
        drawn = None if own is None else _blocks(t, own, Q).split(sizes)
        for number, size in enumerate(sizes):
            parts = [_Unfolded.apply(near[number], Q, left + Q + right)]
            parts += [] if for_all is None else [for_all.expand(size, -1, -1, -1)]
            parts += [] if drawn is None else [drawn[number]]
            yield torch.cat(parts, 2)

    rows = []
    for own_q, own_k, own_v, own_mask, own_bias in zip(queries, read(k), read(v), mask.split(sizes), biases, strict=True):
        y = _attend(own_q, own_k, own_v, own_mask, own_bias, scale=scale, softcap=softcap, sinks=sinks, dropout=dropout)
        rows.append(y.flatten(0, 1))
    return torch.cat(rows)[S - T - begin :][:T]


def _blocks(t: Tensor, own: Tensor, size: int) -> Tensor:
    """Gather blocks `own` (H, M, R) of `size` positions of t (H, S, K): (M, H, R·size, K)."""
    H, S, K = t.shape
    blocks = F.pad(t, (0, 0, 0, -S % size)).reshape(-1, size * K)
    rows = own + torch.arange(H, device=own.device)[:, None, None] * (len(blocks) // H)
    return blocks.index_select(0, rows.transpose(0, 1).flatten()).view(own.shape[1], H, -1, K)


def _overlap_spans(k: Tensor, spans: list[tuple[int, int]]) -> tuple[Tensor, ...]:
    """Return positions [from, to) of k (G, S, K) for each span."""
    parts: tuple[Tensor, ...] = _Overlapping.apply(k, *spans)
    return parts


class _Overlapping(torch.autograd.Function):
    """Overlapping views of k, whose gradients are summed in one buffer."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, *spans: tuple[int, int]) -> tuple[Tensor, ...]:
        ctx.shape, ctx.spans = k.shape, spans
        return tuple(k[:, first:last] for first, last in spans)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        G, S, K = ctx.shape
        total = gradients[0].new_zeros(S, G, K).transpose(0, 1)  # in the order in which the fused kernel writes
        for (first, last), gradient in zip(ctx.spans, gradients, strict=True):
            total[:, first:last] += gradient
        return total, *[None] * len(ctx.spans)


class _Unfolded(torch.autograd.Function):
    """View k (G, S, K) as overlapping runs (runs, G, reach, K), `step` apart."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, step: int, reach: int) -> Tensor:
        ctx.shape, ctx.step = k.shape, step
        return k.unfold(1, reach, step).permute(1, 0, 3, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (G, S, K), step, (count, _, reach, _) = ctx.shape, ctx.step, gradient.shape
        total = gradient.new_zeros(S, G, K).transpose(0, 1)
        for first in range(0, reach, step):  # runs that are `step` wide do not overlap
            width = min(step, reach - first)
            places = total[:, first : first + (count - 1) * step + width].unfold(1, width, step)
            places.permute(1, 0, 3, 2).add_(gradient[:, :, first : first + width])
        return total, None, None


def _band(T: int, S: int, shift: int, left: int, right: int, bias: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Mask (T, S) and bias (H, T, S) of a band; the first key is `shift` after the first query."""
    offset = torch.arange(S, device=device) - torch.arange(T, device=device)[:, None] + shift
    spread = None if bias is None else bias[:, (offset + left).clamp(0, left + right)]
    return (offset >= -left) & (offset <= right), spread


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None, sinks: Tensor | None, **options: Any) -> Tensor:
    """Attend with blocks (M, H, T, K) over keys (M, G, S, K), to (M, T, H, V)."""
    H, T, G = q.shape[1], q.shape[2], k.shape[1]
    if (heads := H // G) == 1:
        return attention(q, k, v, mask=mask, bias=bias, sinks=sinks, **options).transpose(1, 2)
    sinks = None if sinks is None else sinks.expand(H, T).reshape(G, heads * T)
    folded = None if bias is None else bias.unflatten(-3, (G, heads)).flatten(-3, -2)
    y = attention(q.unflatten(1, (G, heads)).flatten(2, 3), k, v, mask=mask.repeat(heads, 1), bias=folded, sinks=sinks, **options)
    return y.unflatten(2, (heads, T)).flatten(1, 2).transpose(1, 2)
