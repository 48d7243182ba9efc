"""Pooling: one vector for a sequence.

    first, last     the vector of that place
    mean, max       of every component, over positions
    first-mean      the first vector and the mean of the others, side by side       (DINOv2)
    first-two       the first two vectors side by side; heads score each by a map of its own     (DeiT)
    attention       v = Σ_t α_t x_t,  α = softmax_t(wᵀ x_t)         a mean whose weights are learned (after Yang et al. 2016)
    probe           u = MultiHead(p, X, X),  v = u + MLP(n(u))      attention of one learned query p (SigLIP, after Lee et al. 2019)

w is initialised to zero, so attention starts as the mean. Its weights can be recorded as a map with one row. `skip` positions at the
beginning are left out of means: class tokens and registers.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.errors import ConfigError
from attentif.kernels.attention import attention
from attentif.nn.ffn import FeedForwardConfig
from attentif.nn.linear import Linear
from attentif.nn.mixer import Caps, Recordable, Site
from attentif.nn.norm import LayerNormConfig, Norm
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for

Plain = Literal["first", "last", "mean", "max"]
Joined = Literal["first-mean", "first-two"]
Pool = Literal[Plain, Joined, "attention"]


def pool_sequence(x: Tensor, seq: Seq, how: Plain) -> Tensor:
    """Pool each sequence to one vector (B, D), ignoring padding."""
    if how in ("first", "last"):
        places = seq.first() if how == "first" else seq.last()
        return x.reshape(-1, x.shape[-1])[places]
    if how == "max":
        padded = unpack(x, seq) if seq.is_packed else x
        return padded.masked_fill(~seq.padded_mask()[..., None], float("-inf")).amax(1)
    if seq.is_packed:
        total = x.new_zeros(seq.batch, x.shape[-1]).index_add(0, seq.row, x)
    else:
        total = (x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)).sum(1)
    return total / seq.lengths[:, None].clamp(min=1)


def pool_joined(x: Tensor, seq: Seq, how: Joined, skip: int = 0) -> Tensor:
    """Pool each sequence to two vectors side by side (B, 2·D)."""
    first = pool_sequence(x, seq, "first")
    if how == "first-mean":
        return torch.cat([first, pool_sequence(*without_first(x, seq, skip or 1), "mean")], -1)
    return torch.cat([first, pool_sequence(*without_first(x, seq, 1), "first")], -1)


def without_first(x: Tensor, seq: Seq, count: int) -> tuple[Tensor, Seq]:
    """Padded sequences without their first `count` positions."""
    x = unpack(x, seq) if seq.is_packed else x
    return x[:, count:], Seq.from_mask(seq.padded_mask()[:, count:], dense=seq.dense and not seq.is_packed)


class AttentionPool(Recordable):
    """The weighted mean `attention` above."""

    caps = Caps(causal=False, bidirectional=True, streaming="none", maps=True)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D)"""
        x = unpack(x, seq) if seq.is_packed else x
        valid = seq.padded_mask()
        weights = (x @ self.query).masked_fill(~valid, torch.finfo(x.dtype).min).softmax(1)  # not -inf: sequences may be empty
        if (tape := tape_for(self)) is not None:
            tape.keep(self, weights.detach())
        x = x if seq.dense else x.masked_fill(~valid[..., None], 0)
        return torch.einsum("bt,btd->bd", weights, x)

    def maps(self, record: Tensor, head: int | None = None, rows: Tensor | None = None) -> Tensor:  # there is one head
        return (record if rows is None else record[rows])[:, None, None]


class ProbeConfig(Config):
    """Attention by one learned query, and a feed-forward network behind it."""

    heads: int = Field(8, gt=0, description="heads of the attention")
    norm: Norm = Field(LayerNormConfig(), description="before the feed-forward network")
    ffn: FeedForwardConfig = Field(FeedForwardConfig(), description="the feed-forward network")

    def build(self, width: int) -> "Probe":
        return Probe(self, width)


class Probe(nn.Module):
    """The pooling `probe` above."""

    def __init__(self, config: ProbeConfig, width: int) -> None:
        super().__init__()
        if width % config.heads:
            raise ConfigError(f"head.probe.heads: {config.heads} heads do not divide a width of {width}")
        self.heads = config.heads
        self.query = nn.Parameter(torch.zeros(width))
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))
        self.norm = config.norm.build(width)
        self.ffn = config.ffn.build(Site(width=width, norm=config.norm))

    def init_weights(self) -> None:
        nn.init.normal_(self.query, std=0.02)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, D)"""
        x = unpack(x, seq) if seq.is_packed else x
        split = lambda vectors: vectors.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q = split(self.q(self.query).expand(x.shape[0], 1, -1))
        mask = None if seq.dense else seq.padded_mask()[:, None, None]
        pooled = self.out(attention(q, split(self.k(x)), split(self.v(x)), mask=mask, scale=q.shape[-1] ** -0.5).transpose(1, 2).flatten(2))
        return (pooled + self.ffn(self.norm(pooled), Seq.from_padded([1] * x.shape[0])))[:, 0]
