"""Base of the fixed state spaces S4 and S4D: a linear recurrence, then a mixing of the channels.

    y = SSM(x),     out = a ⊙ σ(b),     (a, b) = W_o gelu(y)

    x, y     the sequence, and what each channel's state space makes of it      (B, T, D)
    W_o      mixes the channels, into twice as many: half of them are gates     (2D, D)

Each channel has its own step size Δ and `state` numbers of state, kept as half as many complex ones.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.nn.linear import Linear
from attentif.nn.mixer import Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.ragged import group_by_length
from attentif.nn.seq import Seq
from attentif.nn.state import State


class FixedStateSpaceConfig(MixerConfig):
    """Sizes of a fixed state space."""

    state: int = Field(64, gt=0, description="numbers of state for each channel; even")
    step_min: float = Field(0.001, gt=0, description="smallest step size before training: the longest memory is about its inverse")
    step_max: float = Field(0.1, gt=0, description="largest step size before training")


@dataclass(slots=True)
class FixedState(State):
    h: Tensor  # (B, D, S, 2): real and imaginary parts


class FixedStateSpace(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: FixedStateSpaceConfig, site: Site) -> None:
        super().__init__()
        if config.state % 2:
            raise ConfigError(f"state = {config.state}: conjugate pairs need an even number")
        if config.step_min > config.step_max:
            raise ConfigError(f"step_min = {config.step_min} is above step_max = {config.step_max}")
        D, S = site.width, config.state // 2
        self.config = config
        self.log_step = nn.Parameter(torch.empty(D))
        self.log_decay = nn.Parameter(torch.empty(D, S))  # of the rates −exp(log_decay) + i frequency
        self.frequency = nn.Parameter(torch.empty(D, S))
        self.C = nn.Parameter(torch.empty(D, S, 2))
        self.D = nn.Parameter(torch.empty(D))
        self.out = Linear(D, 2 * D)

    @torch.no_grad()
    def init_weights(self) -> None:
        nn.init.uniform_(self.log_step, math.log(self.config.step_min), math.log(self.config.step_max))
        nn.init.constant_(self.log_decay, math.log(0.5))
        nn.init.normal_(self.C, std=0.5**0.5)
        nn.init.normal_(self.D)

    @abstractmethod
    def convolve(self, x: Tensor) -> Tensor:
        """The outputs of the state space from an empty state."""

    @abstractmethod
    def advance(self, x: Tensor, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs from the state `h` on, and the state after the first `lengths` tokens of each row."""

    def rates(self) -> Tensor:
        """A of S4D, Λ of S4: (D, S), complex."""
        return torch.complex(-torch.exp(self.log_decay), self.frequency)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> FixedState:
        return FixedState(torch.zeros(batch, *self.C.shape, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: FixedState | None = None) -> Tensor:
        check_streamable(seq, state)
        if seq.is_packed:
            groups = group_by_length(seq)
            y = groups.join([group.pack(self.convolve(_zero_padding(group.pad(x), group.seq))) for group in groups])
        elif state is None:
            y = self.convolve(_zero_padding(x, seq))
        else:
            y, h = self.advance(_zero_padding(x, seq), torch.view_as_complex(state.h), seq.lengths)
            state.h = torch.view_as_real(h)
        return F.glu(self.out(F.gelu(y)), -1)


def _zero_padding(x: Tensor, seq: Seq) -> Tensor:
    """Zeros on the padding: an FFT would spread its size over the whole row as rounding."""
    return x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)
