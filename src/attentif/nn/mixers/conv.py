"""A convolution over time: each output reads a window of its neighbours.

    y_t = [ a(b^w + Σ_{k=0}^{w-1} W^w_k x_{t+k-l}) ]_{w ∈ windows}          glu: a(u, g) = u ⊙ σ(g)

    w        tokens of a window; several windows share out the components of y among themselves
    l        tokens of the window before t: all but t itself if causal, else half of them, (w - 1) div 2
    a        activation

Sequences are zero-padded. With windows of 3, 4 and 5 tokens, ReLU and max pooling this is the text CNN of Kim 2014; causal and gated, the
layer of convolutional language models (Dauphin et al. 2017).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Ints
from attentif.errors import ConfigError
from attentif.kernels.conv import next_tail
from attentif.nn.ffn import ACTIVATIONS
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.ragged import map_groups
from attentif.nn.seq import Seq
from attentif.nn.state import State


@MIXERS.register
class ConvConfig(MixerConfig):
    """A convolution over windows of neighbours, with an activation."""

    cost: ClassVar[str] = "T · window"

    kind: Literal["conv"] = Field("conv", description="convolution over windows of neighbours, with an activation")
    windows: Ints = Field((3,), min_length=1, description="tokens of each window; several windows split the channels")
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "glu", "none"] = Field("relu", description="glu is gated")
    causal: bool = Field(False, description="windows end at the token itself")


@dataclass(slots=True)
class ConvState(State):
    tail: Tensor  # (B, longest window - 1, D): the tokens before the next one


class Conv(Mixer, config=ConvConfig):
    def __init__(self, config: ConvConfig, site: Site) -> None:
        super().__init__()
        if min(config.windows) < 1:
            raise ConfigError("windows: a window has at least one token")
        if len(config.windows) > site.width:
            raise ConfigError(f"windows: {len(config.windows)} windows cannot split {site.width} channels")
        self.config, self.width, self.windows = config, site.width, config.windows
        shares = [len(part) for part in torch.arange(site.width).tensor_split(len(config.windows))]
        gates = 2 if config.activation == "glu" else 1
        self.maps_of = nn.ModuleList(
            Linear(window * site.width, gates * share) for window, share in zip(config.windows, shares, strict=True)
        )
        self.activation: Callable[[Tensor], Tensor] | None = (
            F.glu if config.activation == "glu" else ACTIVATIONS.get(config.activation)  # glu: the second half opens the first
        )
        self.longest = max(config.windows)
        self.before = self.longest - 1 if config.causal else (self.longest - 1) // 2
        ahead = self.longest - 1 - self.before
        self.caps = Caps(causal=not ahead, bidirectional=ahead > 0, streaming="none" if ahead else "exact")

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> ConvState:
        if not self.caps.causal:
            raise ConfigError("a convolution that is not causal cannot read a sequence in chunks")
        return ConvState(torch.zeros(batch, self.longest - 1, self.width, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: ConvState | None = None) -> Tensor:
        if state is None:
            return map_groups(self.convolve_padded, seq, x) if seq.is_packed else self.convolve_padded(x, seq)
        check_streamable(seq, state)
        y = self.convolve(torch.cat([state.tail, x], 1))
        state.tail = next_tail(x, state.tail, seq.lengths, seq.dense)
        return y

    def convolve_padded(self, x: Tensor, seq: Seq) -> Tensor:
        """Convolve rows from position 0, zero-padded at both ends."""
        inside = x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)
        return self.convolve(F.pad(inside, (0, 0, self.before, self.longest - 1 - self.before)))

    def convolve(self, x: Tensor) -> Tensor:
        """(B, longest - 1 + T, D) to (B, T, D)."""
        places = x.shape[1] - self.longest + 1
        parts = []
        for window, linear in zip(self.windows, self.maps_of, strict=True):
            first = self.before - (window - 1 if self.config.causal else (window - 1) // 2)  # where the window of the first token begins
            taps = x[:, first : first + places + window - 1].unfold(1, window, 1).flatten(2)  # (B, T, D · window), as conv1d has its weight
            part = linear(taps)
            parts.append(part if self.activation is None else self.activation(part))
        return torch.cat(parts, -1) if len(parts) > 1 else parts[0]
