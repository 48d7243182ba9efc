"""A gated linear recurrence inside Griffin's block: what is forgotten depends on the input alone, so that the loop is one line.

    u = c(W_in x)                                            c: a short causal convolution of each component
    h_t by the form, from two linear maps of u by blocks:
    rg-lru    r_t = σ(A u_t + a),   i_t = σ(B u_t + b),   a_t = e^{-8 r_t softplus(Λ)}
              h_t = a_t ⊙ h_{t-1} + √(1 - a_t²) ⊙ i_t ⊙ u_t,    h_1 = i_1 ⊙ u_1                       (De et al. 2024, eq. 1-4)
    min-gru   z_t = σ(B u_t + b),   h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ (A u_t + a)                    (Feng et al. 2024)
    y = W_out (h ⊙ gelu(W_gate x)),  or W_out h without the gate

    Λ        decay of each component; begins so that with r = 1 a component keeps 0.9 to 0.999 of its state in a step

The first token enters unscaled, as in the authors' code. 1 - a² is kept above 1e-12, where the derivative of the root would be infinite.

Maps: h_t is a sum over the past, of u_s or of A u_s + a, whose weights are c_s a_{s+1} ... a_t with c the input's factor (√(1 - a²) ⊙ i, or
z); minGRU's sum to at most one. Components are shown in groups.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.conv import causal_conv, next_tail
from attentif.kernels.linear_recurrence import linear_recurrence
from attentif.nn.channels import mean_maps
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refuse_unreadable
from attentif.nn.past import back_only, whole_past, with_past
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for

SHARPNESS = 8.0  # c of the paper
LEAST = 1e-12


@MIXERS.register
class GatedRecurrenceConfig(MixerConfig):
    """A linear recurrence whose gates see the input alone."""

    cost: ClassVar[str] = "T"

    kind: Literal["gated-recurrence"] = Field("gated-recurrence", description="gated linear recurrence (Griffin, minGRU)")
    form: Literal["rg-lru", "min-gru"] = Field("rg-lru", description="rg-lru (Griffin) or min-gru")
    hidden: int | None = Field(None, gt=0, description="components of the state; by default the model's width")
    blocks: int = Field(1, gt=0, description="blocks of components that the gates mix among themselves only; 1: all with all")
    conv: int = Field(4, ge=0, description="taps of the short convolution before the recurrence; 0: none")
    gated: bool = Field(True, description="multiply the states by a gate of the input")

    def build(self, site: Site) -> "GatedRecurrence":
        return GatedRecurrence(self, site)


@dataclass(slots=True)
class GatedRecurrenceState(State):
    h: Tensor  # (B, hidden)
    tail: Tensor  # (B, conv - 1, hidden): the newest tokens before the short convolution
    past: Tensor | None = None  # (B, places, 2 hidden): log a and c of every place, while a tape is open


@dataclass(frozen=True, slots=True)
class GatedRecurrenceRecord:
    """What the weights of one call can be worked out from."""

    written: Tensor | None  # (B, places, 2 hidden): log a and c of every place, or (N, 2 hidden) where the call was packed
    seq: Seq


class GatedRecurrence(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: GatedRecurrenceConfig, site: Site) -> None:
        super().__init__()
        D, hidden, blocks = site.width, config.hidden or site.width, config.blocks
        if hidden % blocks:
            raise ConfigError(f"hidden = {hidden} is not a multiple of blocks = {blocks}")
        self.config, self.hidden = config, hidden
        self.entry = Linear(D, hidden)
        self.gate = Linear(D, hidden) if config.gated else None
        if config.conv:
            self.short = nn.Parameter(torch.empty(hidden, config.conv))
            self.short_bias = nn.Parameter(torch.empty(hidden))
        self.gates = nn.Parameter(torch.empty(2, blocks, hidden // blocks, hidden // blocks))  # B, then A
        self.gate_biases = nn.Parameter(torch.empty(2, hidden))
        if config.form == "rg-lru":
            self.decay = nn.Parameter(torch.empty(hidden))
        self.out = Linear(hidden, D)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        if self.config.conv:
            nn.init.normal_(self.short, std=self.config.conv**-0.5)
            nn.init.zeros_(self.short_bias)
        nn.init.normal_(self.gates, std=self.gates.shape[2] ** -0.5)
        nn.init.zeros_(self.gate_biases)
        if self.config.form == "rg-lru":
            kept = torch.empty_like(self.decay).uniform_(0.9**2, 0.999**2).sqrt()
            self.decay.copy_(torch.expm1(-kept.log() / SHARPNESS).log())

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> GatedRecurrenceState:
        h = torch.zeros(batch, self.hidden, device=device, dtype=dtype)
        return GatedRecurrenceState(h, self.no_tail(h))

    def no_tail(self, h: Tensor) -> Tensor:
        return h.new_zeros(len(h), max(self.config.conv - 1, 0), self.hidden)

    def forward(self, x: Tensor, seq: Seq, state: GatedRecurrenceState | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        u = self.entry(x)
        if self.config.conv:
            u = self.convolved(u, seq, state)
        a, b = self.steps(u, seq, state)
        y = self.recurred(a, b, seq, state)
        if self.gate is not None:
            y = y * F.gelu(self.gate(x), approximate="tanh")
        return self.out(y)

    def convolved(self, u: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> Tensor:
        if state is None:
            tail = u.new_zeros(seq.batch, self.config.conv - 1, self.hidden)
        else:
            tail = state.tail
            state.tail = next_tail(u, tail, seq.lengths, seq.dense)
        flat = causal_conv(u.reshape(-1, self.hidden), self.short, self.short_bias, tail, seq.first(), seq.lengths)
        return flat.view_as(u)

    def steps(self, u: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> tuple[Tensor, Tensor]:
        """Decay and input of every step: nothing is carried into a sequence's first token, and a state passes unchanged over padding."""
        first, second = self.mapped(u)
        begins = (seq.pos == 0)[..., None]
        if self.config.form == "rg-lru":
            log_a = second.sigmoid() * (-SHARPNESS * F.softplus(self.decay))
            scale = (-torch.expm1(2 * log_a)).clamp(min=LEAST).sqrt()
            a, c, value = log_a.exp(), torch.where(begins, 1.0, scale) * first.sigmoid(), u
        else:
            c, value = first.sigmoid(), second
            a = 1 - c
        if (tape := tape_for(self)) is not None:
            log_a = log_a if self.config.form == "rg-lru" else F.logsigmoid(-first)
            tape.keep(self, self.recorded(torch.cat([log_a, c], -1).detach(), seq, state))
        elif state is not None:
            state.past = None
        b = c * value
        if seq.is_packed:
            a = a.masked_fill(begins, 0)
        if state is not None and not seq.dense:
            a, b = torch.where(seq.valid[..., None], a, 1.0), torch.where(seq.valid[..., None], b, 0.0)
        return a, b

    def mapped(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The two linear maps by blocks, each of the shape of u."""
        blocks, K = self.gates.shape[1:3]
        parts = u.reshape(-1, blocks, K).transpose(0, 1)  # (blocks, N, K)
        first, second = (
            torch.baddbmm(bias.view(blocks, 1, K), parts, weight).transpose(0, 1).reshape(u.shape)
            for weight, bias in zip(self.gates, self.gate_biases, strict=True)
        )
        return first, second

    def recurred(self, a: Tensor, b: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> Tensor:
        if seq.is_packed:
            return linear_recurrence(a[None], b[None], b.new_zeros(1, self.hidden))[0]
        h0 = b.new_zeros(len(b), self.hidden) if state is None else state.h
        step = b.shape[1] == 1 and not torch.is_grad_enabled()  # too short for a kernel
        y = torch.addcmul(b, a, h0[:, None]) if step else linear_recurrence(a, b, h0)
        if state is not None:
            state.h = y[:, -1]
        return y

    def recorded(self, written: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> GatedRecurrenceRecord:
        past = written if seq.is_packed else with_past(None if state is None else state.past, written, seq)
        if state is not None:
            state.past = past
        return GatedRecurrenceRecord(past, seq)

    def maps(self, record: GatedRecurrenceRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        seq, written = record.seq, whole_past(record.written)
        if seq.is_packed:
            written, seq = unpack(written, seq), Seq.padded(seq.lengths)
        row = slice(None) if rows is None else rows
        log_a, c = written[row].chunk(2, -1)
        pos, sees = seq.pos[row].clamp(max=written.shape[1] - 1), back_only(seq.pos[row], written.shape[1], seq.valid[row])
        total = log_a.cumsum(1)

        def one(d: int) -> Tensor:
            kept = total[..., d].gather(1, pos)[..., None] - total[:, None, :, d]  # (rows, T, S)
            return torch.where(sees, c[:, None, :, d] * kept.clamp(max=0).exp(), 0)

        return mean_maps(self.hidden, head, one)
