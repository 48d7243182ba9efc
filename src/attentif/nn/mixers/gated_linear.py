"""Gated linear attention (GLA): linear attention with a data-dependent decay per key channel.

    S_t = diag(α_t) S_{t-1} + k_t v_tᵀ,     o_t = S_tᵀ q_t / √K,     α_t = σ(W₂ W₁ x_t + b)^{1/τ}
    y_t = W_o (norm(o_t) ⊙ swish(W_r x_t + b_r))                        norm: of each head

    K, V     widths of a head's keys and values: half of the model's width, and all of it, shared out over the heads
    τ        brings decays near 1 (16)
    W₁       the gate's low rank (16)

Yang et al. 2024, section 4.4; kernels in `kernels/gated_linear.py`. Its map is that of o before norm and gate,
q_tᵀ diag(α_{s+1} ... α_t) k_s / √K, whose rows do not sum to 1.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.gate import silu_gate
from attentif.kernels.gated_linear import gated_linear, gated_linear_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable, map_index
from attentif.nn.norm import Norm, RMSNormConfig
from attentif.nn.past import SumState, append_past, require_past
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for


@MIXERS.register
class GatedLinearConfig(MixerConfig):
    """Linear attention with a data-dependent decay per channel."""

    cost: ClassVar[str] = "T"

    kind: Literal["gated-linear"] = Field("gated-linear", description="linear attention with a data-dependent decay per channel")
    heads: int = Field(4, gt=0, description="heads")
    key_width: int | None = Field(None, gt=0, description="width of a head's queries and keys; by default width / (2 heads)")
    value_width: int | None = Field(None, gt=0, description="width of a head's values; by default width / heads")
    rank: int = Field(16, gt=0, description="rank of the map to the decays")
    slowness: float = Field(16.0, gt=0, description="τ: larger values start with decays nearer to 1")
    norm: Norm = Field(RMSNormConfig(), description="norm of each head's output")
    gate: bool = Field(True, description="multiply the output by swish(W_r x + b_r)")


@dataclass(frozen=True, slots=True)
class GatedRecord:
    """What the attention weights of one call are computed from."""

    q: Tensor  # (B, T, H, K)
    seen: Tensor | None  # keys and logarithms of decays (B, S, H, 2K), with those of earlier chunks; None: not recorded
    seq: Seq  # padded


class GatedLinear(Mixer, config=GatedLinearConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: GatedLinearConfig, site: Site) -> None:
        super().__init__()
        H, D = config.heads, site.width
        if (config.key_width is None and D % (2 * H)) or (config.value_width is None and D % H):
            raise ConfigError(f"width = {D} is not a multiple of 2 heads = {2 * H}; give key_width and value_width")
        self.config, self.heads = config, H
        self.K, self.V = config.key_width or D // (2 * H), config.value_width or D // H
        self.q = Linear(D, H * self.K, bias=False)
        self.k = Linear(D, H * self.K, bias=False)
        self.v = Linear(D, H * self.V, bias=False)
        self.decay_down = Linear(D, config.rank, bias=False)  # W₁
        self.decay_up = Linear(config.rank, H * self.K)  # W₂, b
        self.norm = config.norm.build(self.V)
        self.gate = Linear(D, H * self.V) if config.gate else None
        self.out = Linear(H * self.V, D, bias=False)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> SumState:
        return SumState(torch.zeros(batch, self.heads, self.K, self.V, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        check_streamable(seq, state)
        q, k = (project(x).unflatten(-1, (self.heads, self.K)) for project in (self.q, self.k))
        v = self.v(x).unflatten(-1, (self.heads, self.V))
        g = F.logsigmoid(self.decay_up(self.decay_down(x))).unflatten(-1, (self.heads, self.K)) / self.config.slowness
        q = q * self.K**-0.5
        if (tape := tape_for(self)) is not None:
            tape.keep(self, self.make_record(q.detach(), torch.cat([k, g], -1).detach(), seq, state))
        elif state is not None:
            state.past = None
        o = map_groups(self.attend, seq, q, k, v, g) if seq.is_packed else self.attend(q, k, v, g, seq, state)
        o = self.norm(o).flatten(-2)
        return self.out(o if self.gate is None else silu_gate(o, self.gate(x)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, seq: Seq, state: SumState | None = None) -> Tensor:
        """Map queries, keys, decays (B, T, H, K) and values (B, T, H, V) to (B, T, H, V)."""
        if not seq.dense:
            hidden = ~seq.valid[..., None, None]
            k, g = k.masked_fill(hidden, 0.0), g.masked_fill(hidden, 0.0)
        sums = q.new_zeros(len(q), self.heads, self.K, self.V) if state is None else state.sums
        o, sums = gated_linear(q, k, v, g, sums)
        if state is not None:
            state.sums = sums
        return o

    def make_record(self, q: Tensor, new: Tensor, seq: Seq, state: SumState | None) -> GatedRecord:
        if seq.is_packed:
            q, new, seq = unpack(q, seq), unpack(new, seq), Seq.from_padded(seq.lengths)
        new = new.masked_fill(~seq.valid[..., None, None], 0.0)
        seen = new if state is None else append_past(state.past, new, seq)
        if state is not None:
            state.past = seen
        return GatedRecord(q, seen, seq)

    def maps(self, record: GatedRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        row, heads = map_index(rows, head)
        k, g = require_past(record.seen)[row, :, heads].chunk(2, -1)
        pos = record.seq.pos[row].clamp(max=k.shape[1] - 1)  # that of padding may lie beyond
        weights = gated_linear_weights(record.q[row, :, heads], k, g, pos)
        return weights * record.seq.valid[row, None, :, None]
