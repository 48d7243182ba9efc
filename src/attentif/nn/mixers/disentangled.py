"""Disentangled attention: what a token means and how far it stands are scored apart (He et al. 2021, DeBERTa).

s_ij = (q_i · k_j + q_i · W_r p_d(i,j) + k_j · W_s p_d(i,j)) / √(K · n)        y = W_o softmax(s) v

q, k, v    W_q x, W_k x, W_v x, head by head                                       (B, H, T, K)
p          a vector for each distance, of the stack's `bias` (`nn/bias.py`)        (2 · span, D)
d(i, j)    the number of the distance i − j, near ones exact
W_r, W_s   to keys and queries of distances; W_k and W_q where they are shared     (H·K, D)
n          terms in the sum: content with content, and those of `terms`
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.bias import DistanceVectors
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, share_module
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for

Term = Literal["content-to-position", "position-to-content"]


@MIXERS.register
class DisentangledConfig(MixerConfig):
    """Softmax attention that scores contents and distances apart."""

    cost: ClassVar[str] = "T²"
    reads_bias: ClassVar[str] = "distances"

    kind: Literal["disentangled"] = Field(
        "disentangled", description="softmax attention that scores contents and distances apart (DeBERTa)"
    )
    heads: int = Field(8, gt=0, description="heads")
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    terms: Annotated[tuple[Term, ...], Field(strict=False)] = Field(
        ("content-to-position", "position-to-content"), description="what is scored besides contents with contents"
    )
    shared: bool = Field(True, description="distances are projected as contents are; otherwise apart")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the weights; disables the fast kernel on CPU")

    def build(self, site: Site) -> "Disentangled":
        return Disentangled(self, site)


@dataclass(frozen=True, slots=True)
class DisentangledRecord:
    """What the weights of one call can be worked out from."""

    q: Tensor  # (B, T, H, K), or packed (N, H, K)
    k: Tensor
    seq: Seq
    distances: tuple[Tensor | None, Tensor | None]  # keys and queries of distances as they were


class Disentangled(Mixer):
    caps = Caps(causal=False, bidirectional=True, streaming="none", maps=True)

    def __init__(self, config: DisentangledConfig, site: Site) -> None:
        super().__init__()
        H, D = config.heads, site.width
        K = site.head_width(H, config.head_width)
        if not isinstance(site.bias, DistanceVectors):
            raise ConfigError(
                'disentangled attention reads the vectors of distances of its stack: give it bias = { kind = "distances", ... }'
            )
        if site.bias.table.embedding_dim != D:
            raise ConfigError(f"bias.width = {site.bias.table.embedding_dim} is not the width of the model, {D}")
        self.config, self.heads, self.head_width = config, H, K
        self.scale = (K * (1 + len(set(config.terms)))) ** -0.5
        self.q, self.k, self.v = (Linear(D, H * K) for _ in range(3))
        self.out = Linear(H * K, D)
        apart = not config.shared
        self.distance_key = Linear(D, H * K) if apart and "content-to-position" in config.terms else None
        self.distance_query = Linear(D, H * K) if apart and "position-to-content" in config.terms else None
        self.positions: nn.Module | None
        share_module(self, "positions", site.bias)

    def forward(self, x: Tensor, seq: Seq, state: None = None) -> Tensor:
        q, k, v = (project(x).unflatten(-1, (self.heads, self.head_width)) for project in (self.q, self.k, self.v))
        distances = self.project_distances(x.dtype)
        if (tape := tape_for(self)) is not None:
            kept = [None if t is None else t.detach() for t in distances]
            tape.keep(self, DisentangledRecord(q.detach(), k.detach(), seq, (kept[0], kept[1])))
        attend = lambda q, k, v, seq: self.attend(q, k, v, seq, distances)
        return self.out(map_groups(attend, seq, q, k, v) if seq.is_packed else attend(q, k, v, seq))

    def project_distances(self, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """Keys and queries of distances, (H, 2 · span, K) each; None where the term is left out."""
        assert isinstance(self.positions, DistanceVectors)
        vectors, terms = self.positions.vectors().to(dtype), self.config.terms
        split = lambda projected: projected.unflatten(-1, (self.heads, self.head_width)).transpose(0, 1)
        keys = split((self.distance_key or self.k)(vectors)) if "content-to-position" in terms else None
        queries = split((self.distance_query or self.q)(vectors)) if "position-to-content" in terms else None
        return keys, queries

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, distances: tuple[Tensor | None, Tensor | None]) -> Tensor:
        """(B, T, H, K) to (B, T, H·K)."""
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mask = None if seq.dense else seq.valid[:, None, None, :]
        dropout = self.config.dropout if self.training else 0.0
        y = attention(q, k, v, scale=self.scale, mask=mask, bias=self.bias(q, k, distances), dropout=dropout)
        return y.transpose(1, 2).flatten(2)

    def bias(self, q: Tensor, k: Tensor, distances: tuple[Tensor | None, Tensor | None]) -> Tensor | None:
        """(B, H, T, T): what distances add to the scores of contents."""
        assert isinstance(self.positions, DistanceVectors)
        keys, queries = distances
        index = self.positions.index(q.shape[2], q.device).expand(*q.shape[:2], -1, -1)
        parts = []
        if keys is not None:
            parts.append((q @ keys.mT).gather(-1, index))
        if queries is not None:
            parts.append((k @ queries.mT).gather(-1, index.mT).mT)
        return self.scale * sum(parts[1:], parts[0]) if parts else None

    def maps(self, record: DisentangledRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq = record.q, record.k, record.seq
        if seq.is_packed:
            q, k, seq = unpack(q, seq), unpack(k, seq), Seq.from_padded(seq.lengths)
        row = slice(None) if rows is None else rows
        heads = slice(None) if head is None else slice(head, head + 1)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        bias, mask = self.bias(q, k, record.distances), seq.valid[:, None, :, None] & seq.valid[:, None, None, :]
        return attention_weights(
            q[row, heads], k[row, heads], scale=self.scale, mask=mask[row], bias=None if bias is None else bias[row, heads]
        )
