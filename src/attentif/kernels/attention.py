"""Scaled dot-product attention.

    y = softmax(c(s q kᵀ + b) + m) v          c(z) = cap · tanh(z / cap), or z without a soft cap

With a sink a, a number of each head, the softmax also divides by e^a: a query may attend to nothing (gpt-oss, OpenAI 2025).

    q        queries                                              (B, H, T, K)
    k, v     keys and values; each serves H/G queries' heads      (B, G, S, K), (B, G, S, V)
    s        scale, 1/√K in most models
    m        0 where a query may look, −∞ where it may not        broadcast to (B, H, T, S)
    b        bias of positions (ALiBi, T5)                        broadcast to (B, H, T, S)
    a        sinks, one more column of scores, of a zero value    broadcast to (H, T)

Vaswani et al. 2017, eq. 1; heads that share keys: Shazeer 2019, Ainslie et al. 2023; soft cap: Gemma 2.
The fast form keeps a running maximum and sum by blocks of keys, so that no (T, S) matrix is ever in memory (Dao et al. 2022).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Compute the (B, H, T, S) weights; zero for a query that may attend to nothing."""
    scores = (scale * q) @ _for_heads(k, q.shape[1]).mT
    if bias is not None:
        scores = scores + bias
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    if sinks is not None:
        return torch.cat([scores, sinks[..., None].to(scores).expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]
    weights = scores.softmax(-1)
    if mask is None:
        return weights
    blind = ~mask.any(-1, keepdim=True)
    return weights.masked_fill(blind, 0.0) if blind.any() else weights


def attention_naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """The equation."""
    weights = attention_weights(q, k, scale=scale, mask=mask, bias=bias, softcap=softcap, sinks=sinks)
    return weights @ _for_heads(v, q.shape[1])


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention by torch's fused kernel; `causal`: queries and keys have the same positions."""
    if causal and not (mask is None and bias is None and softcap is None and sinks is None):  # the fused kernel takes one or the other
        back = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mask, causal = back if mask is None else mask & back, False
    if softcap is not None:
        return _attend_with_softcap(q, k, v, scale, mask, bias, softcap, dropout)
    if sinks is not None:
        k, v, mask, bias = _with_sinks(q, k, v, mask, bias, sinks)
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=k.shape[1] != q.shape[1])


def _with_sinks(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """One more key, zero as its value: its score is the sink alone."""
    column = sinks[..., None].to(q).expand(*q.shape[-3:-1], 1)
    if bias is None:
        bias = q.new_zeros(1, 1, k.shape[2])
    lead = torch.broadcast_shapes(bias.shape[:-1], column.shape[:-1])
    bias = torch.cat([bias.expand(*lead, -1), column.expand(*lead, 1)], -1)
    return F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), None if mask is None else F.pad(mask, (0, 1), value=True), bias


def _attend_with_softcap(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, bias: Tensor | None, softcap: float, dropout: float
) -> Tensor:
    """Attend by chunks of queries: no fused kernel has a soft cap."""
    k, v = (_for_heads(t, q.shape[1]) for t in (k, v))
    chunk, parts = 256, []
    for start in range(0, q.shape[2], chunk):
        rows = slice(start, start + chunk)
        weights = attention_weights(q[:, :, rows], k, scale=scale, mask=_rows(mask, rows), bias=_rows(bias, rows), softcap=softcap)
        parts.append((F.dropout(weights, dropout) if dropout else weights) @ v)
    return torch.cat(parts, 2)


def _for_heads(t: Tensor, heads: int) -> Tensor:
    """Repeat keys or values (B, G, S, K) for the heads that share them."""
    return t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], 1)


def _rows(t: Tensor | None, rows: slice) -> Tensor | None:
    return t if t is None or t.shape[-2] == 1 else t[..., rows, :]
