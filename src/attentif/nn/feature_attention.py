"""What mixers share that weigh tokens by a product of features, φ(q)·φ(k): projections, batching, state and maps.

    q, k, v = W_q x, W_k x, W_v x        y = W_o [head_1 ... head_H]        head_h = linear_attention(φ(q_h), φ(k_h), v_h)

`kernels/linear_attention.py` has the equation; a mixer adds its φ.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.linear_attention import linear_attention, linear_attention_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import Caps, Mixer, MixerConfig, Site, refuse_unreadable
from attentif.nn.past import SumState, whole_past, with_past
from attentif.nn.ragged import in_groups
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for


class FeatureConfig(MixerConfig):
    """The options of every such mixer."""

    cost: ClassVar[str] = "T"

    heads: int = Field(8, gt=0, description="heads")
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    causal: bool = Field(False, description="look back only")
    bias: bool = Field(True, description="biases in the projections to queries, keys and values")
    out_bias: bool = Field(True, description="bias in the output projection")


@dataclass(frozen=True, slots=True)
class FeatureRecord:
    """What the weights of one call can be worked out from."""

    q: Tensor  # features (B, H, T, F)
    k: Tensor | None  # features (B, H, S, F), with those of earlier pieces; None where these went unseen
    seq: Seq  # padded


class FeatureAttention(Mixer):
    features: int  # F
    by_feature = False  # see the kernel

    def __init__(self, config: FeatureConfig, site: Site) -> None:
        super().__init__()
        H, K = config.heads, site.head_width(config.heads, config.head_width)
        self.heads, self.head_width, self.causal = H, K, config.causal
        self.q, self.k, self.v = (Linear(site.width, H * K, bias=config.bias) for _ in range(3))
        self.out = Linear(H * K, site.width, bias=config.out_bias)
        streaming = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)
        self.caps = streaming if config.causal else Caps(causal=False, bidirectional=True, streaming="none", maps=True)

    def featured(self, q: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """φ of (B, H, T, K) queries and keys; zeros for keys that are not `valid` (B, T)."""
        raise NotImplementedError

    def eps(self, dtype: torch.dtype) -> float:
        """Added to what weights are divided by."""
        raise NotImplementedError

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> SumState:
        if not self.causal:
            raise ConfigError("a sum over both sides cannot read a sequence in pieces; make it causal")
        return SumState(torch.zeros(batch, self.heads, self.features, self.head_width + 1, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        if not seq.dense:
            x = x.masked_fill(~seq.valid[..., None], 0.0)
        q, k, v = (project(x).unflatten(-1, (self.heads, self.head_width)) for project in (self.q, self.k, self.v))
        if (tape := tape_for(self)) is not None:
            tape.keep(self, self.recorded(q.detach(), k.detach(), seq, state))
        elif state is not None:
            state.past = None
        return self.out(in_groups(self.mixed, seq, q, k, v) if seq.is_packed else self.mixed(q, k, v, seq, state))

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        """(B, T, H, K) queries, keys and values to (B, T, H·K)."""
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        q, k = self.featured(q, k, None if seq.dense else seq.valid)
        sums = None if state is None else state.sums
        y, sums = linear_attention(q, k, v, sums, causal=self.causal, eps=self.eps(q.dtype), by_feature=self.by_feature)
        if state is not None:
            state.sums = sums
        return y.transpose(1, 2).flatten(2)

    @torch.no_grad()
    def recorded(self, q: Tensor, k: Tensor, seq: Seq, state: SumState | None) -> FeatureRecord:
        if seq.is_packed:
            q, k, seq = unpack(q, seq), unpack(k, seq), Seq.padded(seq.lengths)
        q, k = self.featured(q.transpose(1, 2), k.transpose(1, 2), None if seq.dense else seq.valid)
        new = k.transpose(1, 2)
        seen = new if state is None else with_past(state.past, new, seq)
        if state is not None:
            state.past = seen
        return FeatureRecord(q, None if seen is None else seen.transpose(1, 2), seq)

    def maps(self, record: FeatureRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        row = slice(None) if rows is None else rows
        heads = slice(None) if head is None else slice(head, head + 1)
        q, k = record.q[row, heads], whole_past(record.k)[row, heads]
        mask = record.seq.valid[row, None, :, None].expand(-1, -1, -1, k.shape[2])
        if self.causal:
            mask = mask & (torch.arange(k.shape[2], device=k.device) <= record.seq.pos[row, None, :, None])
        return linear_attention_weights(q, k, mask, eps=self.eps(q.dtype), by_feature=self.by_feature)
