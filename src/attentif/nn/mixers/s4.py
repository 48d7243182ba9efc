"""The fixed diagonal state space S4D, and the mixing of channels after it (Gu et al. 2022).

    y = S4D(x),     out = a ⊙ σ(b),     (a, b) = W_o gelu(y)

    x, y     the sequence, and what each channel's state space makes of it      (B, T, D)
    W_o      mixes the channels, into twice as many: half of them are gates     (2D, D)

`kernels/s4d.py` has the state space. Each channel has its own step size Δ and `state` numbers of state, kept as half as many complex ones.

Before training (S4D-Lin): A_n = −1/2 + iπn, C ~ N(0, 1/2) in each part, D ~ N(0, 1), Δ between 0.001 and 0.1 (log-uniform).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.s4d import s4d, s4d_advance
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refuse_unreadable
from attentif.nn.ragged import groups_of
from attentif.nn.seq import Seq
from attentif.nn.state import State


@MIXERS.register
class S4Config(MixerConfig):
    """Fixed diagonal state space."""

    cost: ClassVar[str] = "T log T"

    kind: Literal["s4"] = Field("s4", description="fixed diagonal state space (S4D)")
    state: int = Field(64, gt=0, description="numbers of state for each channel; even")
    step_min: float = Field(0.001, gt=0, description="smallest step size before training: the longest memory is about its inverse")
    step_max: float = Field(0.1, gt=0, description="largest step size before training")

    def build(self, site: Site) -> "S4":
        return S4(self, site)


@dataclass(slots=True)
class S4State(State):
    h: Tensor  # (B, D, S, 2): real and imaginary parts


class S4(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: S4Config, site: Site) -> None:
        super().__init__()
        if config.state % 2:
            raise ConfigError(f"state = {config.state}: conjugate pairs need an even number")
        if config.step_min > config.step_max:
            raise ConfigError(f"step_min = {config.step_min} is above step_max = {config.step_max}")
        D, S = site.width, config.state // 2
        self.config = config
        self.log_step = nn.Parameter(torch.empty(D))
        self.log_decay = nn.Parameter(torch.empty(D, S))  # A = −exp(log_decay) + i frequency
        self.frequency = nn.Parameter(torch.empty(D, S))
        self.C = nn.Parameter(torch.empty(D, S, 2))
        self.D = nn.Parameter(torch.empty(D))
        self.out = Linear(D, 2 * D)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        nn.init.uniform_(self.log_step, math.log(self.config.step_min), math.log(self.config.step_max))
        nn.init.constant_(self.log_decay, math.log(0.5))
        self.frequency.copy_(math.pi * torch.arange(self.frequency.shape[1], device=self.frequency.device).expand_as(self.frequency))
        nn.init.normal_(self.C, std=0.5**0.5)
        nn.init.normal_(self.D)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> S4State:
        return S4State(torch.zeros(batch, *self.C.shape, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: S4State | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        parameters = self.parameters_of_the_kernel()
        if seq.is_packed:
            groups = groups_of(seq)
            y = groups.join([group.pack(s4d(_clean(group.pad(x), group.seq), *parameters)) for group in groups])
        elif state is None:
            y = s4d(_clean(x, seq), *parameters)
        else:
            y, h = s4d_advance(_clean(x, seq), *parameters, torch.view_as_complex(state.h), seq.lengths)
            state.h = torch.view_as_real(h)
        return F.glu(self.out(F.gelu(y)), -1)

    def parameters_of_the_kernel(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Δ, A, C, D."""
        A = torch.complex(-torch.exp(self.log_decay), self.frequency)
        return torch.exp(self.log_step), A, torch.view_as_complex(self.C), self.D


def _clean(x: Tensor, seq: Seq) -> Tensor:
    """Zeros on the padding: an FFT would spread its size over the whole row as rounding."""
    return x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)
