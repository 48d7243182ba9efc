"""RWKV-4: a time-mix, which is a recurrence, and a channel-mix, a feed-forward with a token shift
(Peng et al. 2023).

    x̄_t^j = μ_j ⊙ x_t + (1 - μ_j) ⊙ x_{t-1}                                 token shift, x_0 = 0
    time      y_t = W_o (σ(W_r x̄_t^r) ⊙ wkv(W_k x̄^k, W_v x̄^v)_t)            `kernels/wkv.py` has wkv, with w = e^decay and u = bonus
    channel   y_t = σ(W_r x̄_t^r) ⊙ W_o max(W_k x̄_t^k, 0)²                    version 7 leaves the receptance σ(W_r x̄^r) out

μ, decay and bonus are initialised as in the released model, matrices as elsewhere in this package (the authors start some at zero).
Maps are the weights of the mean per component, averaged over groups of components.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.wkv import Runs, Sums, wkv
from attentif.nn.channels import average_maps
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site
from attentif.nn.past import append_past, causal_mask, require_past
from attentif.nn.seq import Seq, unpack
from attentif.nn.shift import ShiftState, mix_ratios, token_shift
from attentif.nn.tape import tape_for


@MIXERS.register
class TimeMixConfig(MixerConfig):
    """RWKV's recurrence: a mean of past values with decaying weights, per component."""

    cost: ClassVar[str] = "T"

    kind: Literal["rwkv-time"] = Field("rwkv-time", description="RWKV-4's time-mix")
    hidden: int | None = Field(None, gt=0, description="width of keys, values and receptance; by default the model's")


@MIXERS.register
class ChannelMixConfig(MixerConfig):
    """RWKV's feed-forward network, which also sees the previous token."""

    cost: ClassVar[str] = "T"

    kind: Literal["rwkv-channel"] = Field("rwkv-channel", description="RWKV's channel-mix")
    hidden: int | None = Field(None, gt=0, description="inner width; by default 4 times the model's")
    receptance: bool = Field(True, description="a gate on the output (version 4); version 7 has none")


@dataclass(slots=True)
class TimeMixState(ShiftState):
    p: Tensor  # (B, hidden): the sums of `kernels/wkv.py`, as p e^o and q e^o
    q: Tensor
    o: Tensor
    past: Tensor | None = None  # (B, positions, hidden): the keys of every position, while a tape is open


@dataclass(frozen=True, slots=True)
class TimeMixRecord:
    """What the attention weights of one call are computed from."""

    k: Tensor | None  # (B, positions, hidden): keys of every position, or (N, hidden) where the call was packed
    seq: Seq


class TimeMix(Mixer, config=TimeMixConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: TimeMixConfig, site: Site) -> None:
        super().__init__()
        D, hidden = site.width, config.hidden or site.width
        self.layer, self.layers, self.hidden = site.layer, site.layers, hidden
        self.mix_k, self.mix_v, self.mix_r = (nn.Parameter(torch.empty(D)) for _ in range(3))
        self.decay, self.bonus = (nn.Parameter(torch.empty(hidden)) for _ in range(2))
        self.k, self.v, self.r = (Linear(D, hidden, bias=False) for _ in range(3))
        self.out = Linear(hidden, D, bias=False)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        D, steps = len(self.mix_k), torch.arange(self.hidden)
        depth, left = self.layer / max(self.layers - 1, 1), 1 - self.layer / self.layers
        self.mix_k.copy_(mix_ratios(D, left))
        self.mix_v.copy_(mix_ratios(D, left) + 0.3 * depth)
        self.mix_r.copy_(mix_ratios(D, 0.5 * left))
        self.decay.copy_(-5 + 8 * (steps / max(self.hidden - 1, 1)) ** (0.7 + 1.3 * depth))
        self.bonus.copy_(math.log(0.3) + 0.5 * ((steps + 1) % 3 - 1))

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> TimeMixState:
        last = torch.zeros(batch, len(self.mix_k), device=device, dtype=dtype)
        return TimeMixState(last, *self.empty_sums(batch, device, dtype))

    def empty_sums(self, batch: int, device: torch.device, dtype: torch.dtype) -> Sums:
        return Sums.empty(batch, self.hidden, device=device, dtype=dtype)

    def forward(self, x: Tensor, seq: Seq, state: TimeMixState | None = None) -> Tensor:
        before = token_shift(x, seq, state)
        k, v, r = (
            project(torch.lerp(before, x, mix)) for project, mix in ((self.k, self.mix_k), (self.v, self.mix_v), (self.r, self.mix_r))
        )
        sums = self.empty_sums(seq.batch, x.device, x.dtype) if state is None else Sums(state.p, state.q, state.o)
        runs = Runs(seq.first(), seq.lengths, seq.max_len)
        y, sums = wkv(self.decay.exp(), self.bonus, k.reshape(-1, self.hidden), v.reshape(-1, self.hidden), sums, runs)
        tape = tape_for(self)
        if tape is not None:
            past = k.detach() if seq.is_packed else append_past(None if state is None else state.past, k.detach(), seq)
            tape.keep(self, TimeMixRecord(past, seq))
        if state is not None:
            state.p, state.q, state.o = sums
            state.past = None if tape is None else past
        return self.out(r.sigmoid() * y.view_as(r))

    def maps(self, record: TimeMixRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        seq, k = record.seq, require_past(record.k)
        if seq.is_packed:
            k, seq = unpack(k, seq), Seq.from_padded(seq.lengths)
        row = slice(None) if rows is None else rows
        k, pos, valid = k[row], seq.pos[row], seq.valid[row]
        sees = causal_mask(pos, k.shape[1], valid)
        back = pos[..., None] - torch.arange(k.shape[1], device=k.device)  # (rows, T, S)
        w = self.decay.exp()

        def one(d: int) -> Tensor:
            scores = k[:, None, :, d] + torch.where(back > 0, (1 - back) * w[d], self.bonus[d])
            return scores.masked_fill(~sees, -math.inf).softmax(-1).masked_fill(~valid[..., None], 0)

        return average_maps(self.hidden, head, one)


class ChannelMix(Mixer, config=ChannelMixConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: ChannelMixConfig, site: Site) -> None:
        super().__init__()
        D, hidden = site.width, config.hidden or 4 * site.width
        self.layer, self.layers = site.layer, site.layers
        self.mix_k, self.k = nn.Parameter(torch.empty(D)), Linear(D, hidden, bias=False)
        self.r = Linear(D, D, bias=False) if config.receptance else None
        if config.receptance:
            self.mix_r = nn.Parameter(torch.empty(D))
        self.out = Linear(hidden, D, bias=False)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        for mix in (self.mix_k, self.mix_r) if self.r is not None else (self.mix_k,):
            mix.copy_(mix_ratios(len(mix), 1 - self.layer / self.layers))

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> ShiftState:
        return ShiftState(torch.zeros(batch, len(self.mix_k), device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: ShiftState | None = None) -> Tensor:
        before = token_shift(x, seq, state)
        y = self.out(self.k(torch.lerp(before, x, self.mix_k)).relu_().square())
        return y if self.r is None else self.r(torch.lerp(before, x, self.mix_r)).sigmoid() * y
