"""Mamba-2: selective state spaces by heads, computed by chunks as matrix products (Dao & Gu 2024).

    z = W_z x,   (u, B, C) = silu(conv(W_u x)),   Δ = softplus(W_Δ x + b_Δ)
    h_t = exp(Δ_t A) h_{t-1} + B_t ⊗ (Δ_t u_t),   y_t = C_t h_t + D u_t        for each head; A = −exp(a)
    out = W_o rms(y ⊙ silu(z))

    u, z     what goes through the state space, and its gate                 (B, T, E), E = expand · D, cut into H heads of width K
    B, C     what is written to the state, what is read from it              (B, T, G, S), S = `state`
    Δ, A, D  step size, rate of decay and skip of each head                  (B, T, H), (H,), (H,)
    h        state of each head                                              (B, H, S, K)

The recurrence is in `kernels/ssd.py`, the convolution in `kernels/conv.py`. Channels of a head share one decay; `groups` of heads share B
and C and each group has its own rms, as in the authors' code. Initialised as there: A uniform in [−16, −1], D = 1, Δ log-uniform in [0.001,
0.1], linear maps and convolution ~ U(±fan_in^−½). Maps, one per head: M[t, s] = C_t·B_s exp(A (Δ_{s+1} + ... + Δ_t)) Δ_s, plus D where s =
t.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.conv import causal_conv, next_tail
from attentif.kernels.gate import silu_gate
from attentif.kernels.ssd import ssd
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.norm import RMSNormByGroup
from attentif.nn.past import append_past, causal_mask, require_past
from attentif.nn.ragged import group_by_length
from attentif.nn.selective import init_selective
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for


@MIXERS.register
class Mamba2Config(MixerConfig):
    """Selective state space by heads."""

    cost: ClassVar[str] = "T"

    kind: Literal["mamba2"] = Field("mamba2", description="selective state space by heads (Mamba-2)")
    state: int = Field(128, gt=0, description="state size per channel")
    expand: int = Field(2, gt=0, description="inner width / model width")
    head_width: int = Field(64, gt=0, description="width of a head; divides the inner width")
    groups: int = Field(1, gt=0, description="groups of heads that share B and C")
    conv: int = Field(4, gt=0, description="taps of the short convolution")
    bias: bool = Field(False, description="biases in the projections in and out")
    conv_bias: bool = Field(True, description="bias in the convolution")
    eps: float = Field(1e-5, gt=0, description="added to the mean square in the norm before the output")


@dataclass(slots=True)
class Mamba2State(State):
    tail: Tensor  # (B, conv - 1, E + 2 G S): the newest inputs of the convolution
    h: Tensor  # (B, H, S, K)
    past: Tensor | None = None  # (B, positions, H + G S): Δ and B of every position, while a tape is open


@dataclass(frozen=True, slots=True)
class Mamba2Record:
    """Inputs from which the implied attention matrices of one call are computed."""

    written: Tensor | None  # (B, positions, H + G S): Δ and B of every position, or (N, H + G S) where the call was packed
    C: Tensor  # (B, T, G S), or (N, G S)
    u: Tensor  # (B, T, E), or (N, E): what entered the state space
    seq: Seq


class Mamba2(Mixer, config=Mamba2Config):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: Mamba2Config, site: Site) -> None:
        super().__init__()
        E, K, G = config.expand * site.width, config.head_width, config.groups
        if E % K:
            raise ConfigError(f"head_width = {K} does not divide the inner width, {E}")
        if E // K % G:
            raise ConfigError(f"{E // K} heads are not a multiple of groups = {G}")
        self.config, self.inner, self.heads, self.shared = config, E, E // K, G * config.state
        self.gate = Linear(site.width, E, bias=config.bias)
        self.inp = Linear(site.width, E + 2 * self.shared, bias=config.bias)
        self.step = Linear(site.width, self.heads)
        self.conv = nn.Parameter(torch.empty(self.inp.out_features, config.conv))
        self.conv_bias = nn.Parameter(torch.empty(self.inp.out_features)) if config.conv_bias else None
        self.A_log = nn.Parameter(torch.empty(self.heads))
        self.D = nn.Parameter(torch.empty(self.heads))
        self.norm = nn.RMSNorm(E, config.eps) if G == 1 else RMSNormByGroup(E, config.eps, G)
        self.out = Linear(E, site.width, bias=config.bias)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        init_selective((self.gate, self.inp, self.step), self.conv, self.conv_bias, self.step.bias)
        nn.init.uniform_(self.A_log, 1, 16)
        self.A_log.copy_(self.A_log.log())
        nn.init.ones_(self.D)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> Mamba2State:
        tail = torch.zeros(batch, self.config.conv - 1, len(self.conv), device=device, dtype=dtype)
        h = torch.zeros(batch, self.heads, self.config.state, self.config.head_width, device=device, dtype=dtype)
        return Mamba2State(tail, h)

    def forward(self, x: Tensor, seq: Seq, state: Mamba2State | None = None) -> Tensor:
        check_streamable(seq, state)
        memory = state or self.init_state(seq.batch, 0, device=x.device, dtype=x.dtype)
        z, raw, delta = self.gate(x), self.inp(x), F.softplus(self.step(x))
        mixed = causal_conv(raw.flatten(0, -2), self.conv, self.conv_bias, memory.tail, seq.first(), seq.lengths, silu=True)
        u, B, C = mixed.view_as(raw).split([self.inner, self.shared, self.shared], -1)
        tape = tape_for(self)
        if tape is not None:
            written = torch.cat([delta, B], -1).detach()
            past = written if seq.is_packed else append_past(memory.past, written, seq)
            tape.keep(self, Mamba2Record(past, C.detach(), u.detach(), seq))
        if seq.is_packed:
            groups = group_by_length(seq)
            parts = []
            for group in groups:
                u_, delta_, B_, C_ = (group.pad(t) for t in (u, delta, B, C))
                parts.append(group.pack(self.scan(u_, delta_, B_, C_, group.seq, None)[0]))
            y = groups.join(parts)
        else:
            y, h = self.scan(u, delta, B, C, seq, memory.h)
        if state is not None:
            state.tail, state.h = next_tail(raw, state.tail, seq.lengths, seq.dense), h
            state.past = past if tape is not None else None
        return self.out(self.norm(silu_gate(y, z)))

    def scan(self, u: Tensor, delta: Tensor, B: Tensor, C: Tensor, seq: Seq, h0: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs (B, T, E) of a padded batch and the state after each row's last token."""
        if not seq.dense:
            delta = delta.masked_fill(~seq.valid[..., None], 0)
        if h0 is None:
            h0 = self.init_state(len(u), 0, device=u.device, dtype=u.dtype).h
        by_head, by_group = (self.heads, self.config.head_width), (self.config.groups, self.config.state)
        B, C = B.unflatten(-1, by_group), C.unflatten(-1, by_group)
        y, h = ssd(u.unflatten(-1, by_head), delta, -torch.exp(self.A_log), B, C, self.D, h0)
        return y.flatten(2), h

    def step_sizes(self, record: Mamba2Record) -> Tensor:
        """Δ at every position, (B, T, H), zero on padding."""
        written = require_past(record.written)
        return (unpack(written, record.seq) if record.seq.is_packed else written)[..., : self.heads]

    def maps(self, record: Mamba2Record, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        seq, written, C = record.seq, require_past(record.written), record.C
        if seq.is_packed:
            written, C, seq = unpack(written, seq), unpack(C, seq), Seq.from_padded(seq.lengths)
        chosen = torch.arange(len(C), device=C.device) if rows is None else rows
        q_pos, sees = seq.pos[chosen], causal_mask(seq.pos, written.shape[1], seq.valid)[chosen]
        heads = torch.arange(self.heads, device=C.device) if head is None else torch.tensor([head], device=C.device)
        delta, B = written[chosen].split([self.heads, self.shared], -1)
        group = heads // (self.heads // self.config.groups)
        scores = torch.einsum("btgn,bsgn->bgts", *(t.unflatten(-1, (self.config.groups, -1)) for t in (C[chosen], B)))[:, group]
        delta = delta[..., heads].transpose(1, 2)  # (rows, heads, S)
        total, places = delta.cumsum(-1), delta.shape[-1]
        at_query = total.gather(2, q_pos.clamp(max=places - 1)[:, None].expand(-1, len(heads), -1))
        gone = (at_query[..., None] - total[:, :, None]).clamp(min=0)
        weights = scores * torch.exp(-torch.exp(self.A_log[heads])[:, None, None] * gone) * delta[:, :, None]
        same = torch.arange(places, device=C.device) == q_pos[:, None, :, None]
        return torch.where(sees[:, None], torch.where(same, weights + self.D[heads][:, None, None], weights), 0)
