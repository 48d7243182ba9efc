"""A gated linear recurrence inside Griffin's block; its gates depend on the input alone.

    u = c(W_in x)                                            c: a short causal convolution of each component
    h_t by the form, from two linear maps of u by blocks:
    rg-lru    r_t = σ(A u_t + a),   i_t = σ(B u_t + b),   a_t = e^{-8 r_t softplus(Λ)}
              h_t = a_t ⊙ h_{t-1} + √(1 - a_t²) ⊙ i_t ⊙ u_t,    h_1 = i_1 ⊙ u_1                       (De et al. 2024, eq. 1-4)
    min-gru   z_t = σ(B u_t + b),   h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ (A u_t + a)                    (Feng et al. 2024)
    y = W_out (h ⊙ gelu(W_gate x)),  or W_out h without the gate

    Λ        decay of each component; begins so that with r = 1 a component keeps 0.9 to 0.999 of its state in a step

The first token enters unscaled, as in the authors' code; 1 - a² is clamped at 1e-12 for a finite derivative of the root. Maps are the
weights c_s a_{s+1} ... a_t with c the input's factor (√(1 - a²) ⊙ i, or z), averaged over groups of components.
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
from attentif.nn.channels import average_maps
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.past import append_past, causal_mask, require_past
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for

SHARPNESS = 8.0  # c of the paper
LEAST = 1e-12


@MIXERS.register
class GatedRecurrenceConfig(MixerConfig):
    """A linear recurrence whose gates depend on the input alone."""

    cost: ClassVar[str] = "T"

    kind: Literal["gated-recurrence"] = Field("gated-recurrence", description="gated linear recurrence (Griffin, minGRU)")
    form: Literal["rg-lru", "min-gru"] = Field("rg-lru", description="rg-lru (Griffin) or min-gru")
    hidden: int | None = Field(None, gt=0, description="components of the state; by default the model's width")
    blocks: int = Field(1, gt=0, description="block-diagonal blocks of the gates; 1: dense")
    conv: int = Field(4, ge=0, description="taps of the short convolution before the recurrence; 0: none")
    gated: bool = Field(True, description="gate the output")


@dataclass(slots=True)
class GatedRecurrenceState(State):
    h: Tensor  # (B, hidden)
    tail: Tensor  # (B, conv - 1, hidden): the newest tokens before the short convolution
    past: Tensor | None = None  # (B, positions, 2 hidden): log a and c of every position, while a tape is open


@dataclass(frozen=True, slots=True)
class GatedRecurrenceRecord:
    """What the attention weights of one call are computed from."""

    written: Tensor | None  # (B, positions, 2 hidden): log a and c of every position, or (N, 2 hidden) where the call was packed
    seq: Seq


class GatedRecurrence(Mixer, config=GatedRecurrenceConfig):
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
        return GatedRecurrenceState(h, self.empty_tail(h))

    def empty_tail(self, h: Tensor) -> Tensor:
        return h.new_zeros(len(h), max(self.config.conv - 1, 0), self.hidden)

    def forward(self, x: Tensor, seq: Seq, state: GatedRecurrenceState | None = None) -> Tensor:
        check_streamable(seq, state)
        u = self.entry(x)
        if self.config.conv:
            u = self.convolve(u, seq, state)
        a, b = self.steps(u, seq, state)
        y = self.run_recurrence(a, b, seq, state)
        if self.gate is not None:
            y = y * F.gelu(self.gate(x), approximate="tanh")
        return self.out(y)

    def convolve(self, u: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> Tensor:
        if state is None:
            tail = u.new_zeros(seq.batch, self.config.conv - 1, self.hidden)
        else:
            tail = state.tail
            state.tail = next_tail(u, tail, seq.lengths, seq.dense)
        flat = causal_conv(u.reshape(-1, self.hidden), self.short, self.short_bias, tail, seq.first(), seq.lengths)
        return flat.view_as(u)

    def steps(self, u: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> tuple[Tensor, Tensor]:
        """Compute decay and input of every step; padding leaves the state unchanged."""
        first, second = self.apply_block_maps(u)
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
            tape.keep(self, self.make_record(torch.cat([log_a, c], -1).detach(), seq, state))
        elif state is not None:
            state.past = None
        b = c * value
        if seq.is_packed:
            a = a.masked_fill(begins, 0)
        if state is not None and not seq.dense:
            a, b = torch.where(seq.valid[..., None], a, 1.0), torch.where(seq.valid[..., None], b, 0.0)
        return a, b

    def apply_block_maps(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the two block-diagonal maps, each to the shape of u."""
        blocks, K = self.gates.shape[1:3]
        parts = u.reshape(-1, blocks, K).transpose(0, 1)  # (blocks, N, K)
        first, second = (
            torch.baddbmm(bias.view(blocks, 1, K), parts, weight).transpose(0, 1).reshape(u.shape)
            for weight, bias in zip(self.gates, self.gate_biases, strict=True)
        )
        return first, second

    def run_recurrence(self, a: Tensor, b: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> Tensor:
        if seq.is_packed:
            return linear_recurrence(a[None], b[None], b.new_zeros(1, self.hidden))[0]
        h0 = b.new_zeros(len(b), self.hidden) if state is None else state.h
        step = b.shape[1] == 1 and not torch.is_grad_enabled()  # a decoding step needs no kernel
        y = torch.addcmul(b, a, h0[:, None]) if step else linear_recurrence(a, b, h0)
        if state is not None:
            state.h = y[:, -1]
        return y

    def make_record(self, written: Tensor, seq: Seq, state: GatedRecurrenceState | None) -> GatedRecurrenceRecord:
        past = written if seq.is_packed else append_past(None if state is None else state.past, written, seq)
        if state is not None:
            state.past = past
        return GatedRecurrenceRecord(past, seq)

    def maps(self, record: GatedRecurrenceRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        seq, written = record.seq, require_past(record.written)
        if seq.is_packed:
            written, seq = unpack(written, seq), Seq.from_padded(seq.lengths)
        row = slice(None) if rows is None else rows
        log_a, c = written[row].chunk(2, -1)
        pos, sees = seq.pos[row].clamp(max=written.shape[1] - 1), causal_mask(seq.pos[row], written.shape[1], seq.valid[row])
        total = log_a.cumsum(1)

        def one(d: int) -> Tensor:
            kept = total[..., d].gather(1, pos)[..., None] - total[:, None, :, d]  # (rows, T, S)
            return torch.where(sees, c[:, None, :, d] * kept.clamp(max=0).exp(), 0)

        return average_maps(self.hidden, head, one)
