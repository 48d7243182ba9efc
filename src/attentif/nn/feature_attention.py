"""Base of the mixers that weigh tokens by a product of features, φ(q)·φ(k).

    q, k, v = W_q x, W_k x, W_v x        y = W_o [head_1 ... head_H]        head_h = linear_attention(φ(q_h), φ(k_h), v_h)

The equation is in `kernels/linear_attention.py`; subclasses define φ.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.linear_attention import linear_attention, linear_attention_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import Caps, HeadsConfig, Mixer, Site, check_streamable, map_index
from attentif.nn.past import SumState, append_past, require_past
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for


class FeatureConfig(HeadsConfig):
    """Options of linear attention mixers."""

    cost: ClassVar[str] = "T"

    causal: bool = Field(False, description="attend to earlier positions only")


@dataclass(frozen=True, slots=True)
class FeatureRecord:
    """What the attention weights of one call are computed from."""

    q: Tensor  # features (B, H, T, F)
    k: Tensor | None  # features (B, H, S, F), with those of earlier chunks; None: not recorded
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

    def apply_feature_map(self, q: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Apply φ to queries and keys (B, H, T, K); zero for keys that are not `valid` (B, T)."""
        raise NotImplementedError

    def eps(self, dtype: torch.dtype) -> float:
        """Constant added to the denominator."""
        raise NotImplementedError

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> SumState:
        if not self.causal:
            raise ConfigError("a sum over both sides cannot read a sequence in chunks; make it causal")
        return SumState(torch.zeros(batch, self.heads, self.features, self.head_width + 1, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        check_streamable(seq, state)
        if not seq.dense:
            x = x.masked_fill(~seq.valid[..., None], 0.0)
        q, k, v = (project(x).unflatten(-1, (self.heads, self.head_width)) for project in (self.q, self.k, self.v))
        if (tape := tape_for(self)) is not None:
            tape.keep(self, self.make_record(q.detach(), k.detach(), seq, state))
        elif state is not None:
            state.past = None
        return self.out(map_groups(self.attend, seq, q, k, v) if seq.is_packed else self.attend(q, k, v, seq, state))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        """Map queries, keys and values (B, T, H, K) to (B, T, H·K)."""
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        q, k = self.apply_feature_map(q, k, None if seq.dense else seq.valid)
        sums = None if state is None else state.sums
        y, sums = linear_attention(q, k, v, sums, causal=self.causal, eps=self.eps(q.dtype), by_feature=self.by_feature)
        if state is not None:
            state.sums = sums
        return y.transpose(1, 2).flatten(2)

    @torch.no_grad()
    def make_record(self, q: Tensor, k: Tensor, seq: Seq, state: SumState | None) -> FeatureRecord:
        if seq.is_packed:
            q, k, seq = unpack(q, seq), unpack(k, seq), Seq.from_padded(seq.lengths)
        q, k = self.apply_feature_map(q.transpose(1, 2), k.transpose(1, 2), None if seq.dense else seq.valid)
        new = k.transpose(1, 2)
        seen = new if state is None else append_past(state.past, new, seq)
        if state is not None:
            state.past = seen
        return FeatureRecord(q, None if seen is None else seen.transpose(1, 2), seq)

    def maps(self, record: FeatureRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        row, heads = map_index(rows, head)
        q, k = record.q[row, heads], require_past(record.k)[row, heads]
        mask = record.seq.valid[row, None, :, None].expand(-1, -1, -1, k.shape[2])
        if self.causal:
            mask = mask & (torch.arange(k.shape[2], device=k.device) <= record.seq.pos[row, None, :, None])
        return linear_attention_weights(q, k, mask, eps=self.eps(q.dtype), by_feature=self.by_feature)
