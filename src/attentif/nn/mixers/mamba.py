"""Mamba: a state space whose step size, input and output depend on the token (Gu & Dao 2023).

    u = W_u x,   z = W_z x                               two branches of width E
    u = silu(conv(u))                                    a causal convolution of each channel over `conv` tokens
    (r_t, B_t, C_t) = W_s u_t,   Δ_t = softplus(W_Δ r_t + b_Δ)
    h_t = exp(Δ_t A) ⊙ h_{t-1} + (Δ_t u_t) B_t,   y_t = C_t h_t + D ⊙ u_t        A = −exp(a)
    out = W_o (y ⊙ silu(z))

    x, out   the sequence                                                    (B, T, D)
    u, z     what goes through the state space, and its gate                 (B, T, E), E = expand · D
    r        what step sizes are made from, R = `rank` numbers               (B, T, R)
    B, C     what is written to the state, what is read from it              (B, T, S), S = `state`
    h, A     state of each channel, and its rates of decay                   (B, E, S), (E, S)

With `norm`, r, B and C are normalised first, each by a norm of its own (Jamba, Lieber et al. 2024).
The recurrence is in `kernels/selective_scan.py`, the convolution in `kernels/conv.py`. Δ near zero skips a token, a large one resets the
state. Initialised as in the authors' code: A = −1 ... −S, D = 1, Δ log-uniform in [0.001, 0.1], linear maps and convolution ~
U(±fan_in^−½).

Maps: the recurrence is a lower triangular matrix for each channel d (Ali et al. 2024), averaged over groups of channels (`nn/channels.py`),

    M_d[t, s] = Δ_s[d] Σ_n C_t[n] B_s[n] exp(A[d, n] (Δ_{s+1}[d] + ... + Δ_t[d])),     plus D[d] where s = t
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.conv import causal_conv, next_tail
from attentif.kernels.gate import silu_gate
from attentif.kernels.selective_scan import selective_scan
from attentif.nn.channels import average_maps
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.norm import Norm
from attentif.nn.past import append_past, causal_mask, require_past
from attentif.nn.selective import init_selective
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for


@MIXERS.register
class MambaConfig(MixerConfig):
    """Selective state space."""

    cost: ClassVar[str] = "T"

    kind: Literal["mamba"] = Field("mamba", description="selective state space (Mamba)")
    state: int = Field(16, gt=0, description="state size per channel")
    expand: int = Field(2, gt=0, description="inner width / model width")
    conv: int = Field(4, gt=0, description="taps of the short convolution")
    rank: int | None = Field(None, gt=0, description="rank of the step size projection; by default width / 16, rounded up")
    bias: bool = Field(False, description="biases in the projections in and out")
    conv_bias: bool = Field(True, description="bias in the convolution")
    norm: Norm | None = Field(None, description="normalise what step sizes are made from, what is written and what is read (Jamba)")


@dataclass(slots=True)
class MambaState(State):
    tail: Tensor  # (B, conv - 1, E): the newest inputs of the convolution
    h: Tensor  # (B, S, E)
    past: Tensor | None = None  # (B, positions, E + S): Δ and B of every position, while a tape is open


@dataclass(frozen=True, slots=True)
class MambaRecord:
    """Inputs from which the implied attention matrix of one call is computed."""

    written: Tensor | None  # (B, positions, E + S): Δ and B of every position, or (N, E + S) where the call was packed
    C: Tensor  # (B, T, S), or (N, S)
    u: Tensor  # (B, T, E), or (N, E): what entered the state space
    seq: Seq


class Mamba(Mixer, config=MambaConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: MambaConfig, site: Site) -> None:
        super().__init__()
        E, S = config.expand * site.width, config.state
        self.config, self.inner, self.rank = config, E, config.rank or math.ceil(site.width / 16)
        self.inp = Linear(site.width, E, bias=config.bias)
        self.gate = Linear(site.width, E, bias=config.bias)
        self.conv = nn.Parameter(torch.empty(E, config.conv))
        self.conv_bias = nn.Parameter(torch.empty(E)) if config.conv_bias else None
        self.select = Linear(E, self.rank + 2 * S, bias=False)
        self.norms = None if config.norm is None else nn.ModuleList(map(config.norm.build, (self.rank, S, S)))
        self.step = Linear(self.rank, E)
        self.A_log = nn.Parameter(torch.empty(E, S))
        self.D = nn.Parameter(torch.empty(E))
        self.out = Linear(E, site.width, bias=config.bias)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        init_selective((self.inp, self.gate, self.select, self.step), self.conv, self.conv_bias, self.step.bias)
        self.A_log.copy_(torch.arange(1, self.config.state + 1, device=self.A_log.device).log().expand_as(self.A_log))
        nn.init.ones_(self.D)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> MambaState:
        tail = torch.zeros(batch, self.config.conv - 1, self.inner, device=device, dtype=dtype)
        return MambaState(tail, torch.zeros(batch, self.config.state, self.inner, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: MambaState | None = None) -> Tensor:
        check_streamable(seq, state)
        memory = state or self.init_state(seq.batch, 0, device=x.device, dtype=x.dtype)
        first, lengths = seq.first(), seq.lengths
        u, z = self.inp(x), self.gate(x)
        v = causal_conv(u.reshape(-1, self.inner), self.conv, self.conv_bias, memory.tail, first, lengths, silu=True)
        selected = self.select(v).split([self.rank, self.config.state, self.config.state], -1)
        rank, B, C = selected if self.norms is None else (norm(part) for norm, part in zip(self.norms, selected, strict=True))
        delta = F.softplus(self.step(rank))
        y, h = selective_scan(v, delta, -torch.exp(self.A_log), B, C, self.D, memory.h, first, lengths)
        tape = tape_for(self)
        if tape is not None:
            written, C_, u_ = (t.detach().view(*x.shape[:-1], -1) for t in (torch.cat([delta, B], -1), C, v))
            past = written if seq.is_packed else append_past(memory.past, written, seq)
            tape.keep(self, MambaRecord(past, C_, u_, seq))
        if state is not None:
            state.tail, state.h = next_tail(u, state.tail, lengths, seq.dense), h
            state.past = past if tape is not None else None
        return self.out(silu_gate(y.view(z.shape), z))

    def maps(self, record: MambaRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        return average_maps(self.inner, head, self.channel_maps(record, rows))

    def step_sizes(self, record: MambaRecord) -> Tensor:
        """Δ at every position, (B, T, E), zero on padding."""
        written = require_past(record.written)
        return (unpack(written, record.seq) if record.seq.is_packed else written)[..., : self.inner]

    def channel_maps(self, record: MambaRecord, rows: Tensor | None = None) -> Callable[[int], Tensor]:
        """Return a function from a channel to its matrix (rows, T, S)."""
        seq, written, C = record.seq, require_past(record.written), record.C
        if seq.is_packed:
            written, C, seq = unpack(written, seq), unpack(C, seq), Seq.from_padded(seq.lengths)
        chosen = torch.arange(len(C), device=C.device) if rows is None else rows
        q_pos, sees = seq.pos[chosen], causal_mask(seq.pos, written.shape[1], seq.valid)[chosen]
        delta, B = written[chosen].split([self.inner, self.config.state], -1)
        A, total = -torch.exp(self.A_log), delta.cumsum(1)
        place = torch.arange(delta.shape[1], device=delta.device)

        def one(d: int) -> Tensor:
            gone = (total[:, :, d].gather(1, q_pos.clamp(max=len(place) - 1))[:, :, None] - total[:, None, :, d]).clamp(min=0)
            kept = torch.exp(A[d] * gone[..., None])  # (rows, T, S, N)
            weights = torch.einsum("btn,bsn,btsn->bts", C[chosen], B, kept) * delta[:, None, :, d]
            return torch.where(sees, torch.where(place == q_pos[..., None], weights + self.D[d], weights), 0)

        return one
