"""Linformer: keys and values are projected from T to R positions, so attention costs T·R.

    K' = E_{1..T}ᵀ K,     V' = F_{1..T}ᵀ V,     y = W_o [head_1 ... head_H],     head_h = softmax(Q_h K'_hᵀ / √K) V'_h

    E, F     what each position adds to each of the R rows, trained      (max_len, R), of every head or shared
    T        length of the sequence: a shorter one uses the first T rows of E and F, and padding adds nothing

Wang et al. 2020, eq. 7. Not causal. `share` is the paper's parameter sharing: `none`, `heads` (one E and one F for all heads), `key-value`
(E = F too). Its map, softmax(Q K'ᵀ/√K) Fᵀ, may be negative, and its rows need not sum to 1.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import AttentifError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, HeadsConfig, Mixer, Site, map_index
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for


@MIXERS.register
class LinformerConfig(HeadsConfig):
    """Softmax attention to a fixed number of summaries of the sequence."""

    cost: ClassVar[str] = "T"

    kind: Literal["linformer"] = Field("linformer", description="softmax attention to a fixed number of summaries of the sequence")
    max_len: int = Field(512, gt=0, description="longest sequence")
    rank: int = Field(128, gt=0, description="number of summaries of keys and values")
    share: Literal["none", "heads", "key-value"] = Field("heads", description="shared projections: none, heads, or key-value too")


@dataclass(frozen=True, slots=True)
class LinformerRecord:
    """What the attention weights of one call are computed from."""

    q: Tensor  # (B, T, H, K), or packed (N, H, K)
    k: Tensor
    seq: Seq
    over_keys: Tensor  # copies of E and F
    over_values: Tensor


class Linformer(Mixer, config=LinformerConfig):
    def __init__(self, config: LinformerConfig, site: Site) -> None:
        super().__init__()
        H, D = config.heads, site.width
        K = site.head_width(H, config.head_width)
        self.config, self.heads, self.head_width, self.scale = config, H, K, K**-0.5
        self.q, self.k, self.v = (Linear(D, H * K, bias=config.bias) for _ in range(3))
        self.out = Linear(H * K, D, bias=config.out_bias)
        projections = H if config.share == "none" else 1
        self.over_keys = nn.Parameter(torch.empty(projections, config.max_len, config.rank))  # E
        self.over_values = None if config.share == "key-value" else nn.Parameter(torch.empty_like(self.over_keys))  # F
        self.caps = Caps(causal=False, bidirectional=True, streaming="none", maps=True, max_len=config.max_len)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """N(0, 1/R), as the Johnson-Lindenstrauss argument of the paper draws them."""
        for projection in (self.over_keys, self.over_values):
            if projection is not None:
                nn.init.normal_(projection, std=self.config.rank**-0.5)

    def forward(self, x: Tensor, seq: Seq, state: None = None) -> Tensor:
        if seq.max_len > self.config.max_len:
            raise AttentifError(f"a sequence of {seq.max_len} tokens is longer than max_len = {self.config.max_len} of this linformer")
        q, k, v = (project(x).unflatten(-1, (self.heads, self.head_width)) for project in (self.q, self.k, self.v))
        if (tape := tape_for(self)) is not None:
            over = [t.detach().clone() for t in (self.over_keys, self.for_values)]
            tape.keep(self, LinformerRecord(q.detach(), k.detach(), seq, *over))
        return self.out(map_groups(self.attend, seq, q, k, v) if seq.is_packed else self.attend(q, k, v, seq))

    @property
    def for_values(self) -> Tensor:
        return self.over_keys if self.over_values is None else self.over_values

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq) -> Tensor:
        """(B, T, H, K) to (B, T, H·K)."""
        k, v = summarise(k, self.over_keys, seq), summarise(v, self.for_values, seq)
        return attention(q.transpose(1, 2), k, v, scale=self.scale).transpose(1, 2).flatten(2)

    def maps(self, record: LinformerRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq = record.q, record.k, record.seq
        if seq.is_packed:
            q, k, seq = unpack(q, seq), unpack(k, seq), Seq.from_padded(seq.lengths)
        row, heads = map_index(rows, head)
        q, summaries, T = q.transpose(1, 2)[row, heads], summarise(k, record.over_keys, seq)[row, heads], q.shape[1]
        spread = record.over_values.expand(self.heads, -1, -1)[heads, :T].mT  # (H, R, T)
        if (beyond := T - self.config.max_len) > 0:
            spread = nn.functional.pad(spread, (0, beyond))
        weights = attention_weights(q, summaries, scale=self.scale) @ spread
        return weights * (seq.valid[row, None, :, None] & seq.valid[row, None, None, :])


def summarise(x: Tensor, over: Tensor, seq: Seq) -> Tensor:
    """Project keys or values (B, T, H, K) to (B, H, R, K) over the valid positions."""
    if not seq.dense:
        x = x.masked_fill(~seq.valid[..., None, None], 0.0)
    x = x[:, : over.shape[1]]  # the rest is padding
    over = over[:, : x.shape[1]]
    if len(over) == 1:  # shared by all heads
        return (over[0].mT @ x.flatten(2)).unflatten(2, x.shape[2:]).transpose(1, 2)
    return over.mT @ x.transpose(1, 2)
