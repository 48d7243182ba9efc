"""The fixed window: a token is predicted from the k before it, their vectors side by side (Bengio et al. 2003).

    y_t = W tanh(H [x_t; x_{t−1}; …; x_{t−k+1}] + d) + b  (+ V [x_t; …; x_{t−k+1}])        x_s = 0 before the beginning

    k        `window`: what is further back does not exist for it
    H        (hidden, k·D): each place of the window has weights of its own
    V        the direct connections of the paper, an option

The first idea of a neural language model: the number of weights grows with the window, and nothing is shared between its places.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.kernels.conv import next_tail
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refuse_unreadable
from attentif.nn.seq import Seq
from attentif.nn.state import State


@MIXERS.register
class WindowMLPConfig(MixerConfig):
    """A feed-forward network over the last k tokens, side by side."""

    cost: ClassVar[str] = "T·k"

    kind: Literal["window-mlp"] = Field("window-mlp", description="a feed-forward network over the last tokens, side by side")
    window: int = Field(8, gt=0, description="tokens that it sees, the newest included")
    hidden: int | None = Field(None, gt=0, description="width of the hidden layer; by default twice the model's")
    direct: bool = Field(False, description="a linear map past the hidden layer too (Bengio's direct connections)")

    def build(self, site: Site) -> "WindowMLP":
        return WindowMLP(self, site)


@dataclass(slots=True)
class WindowState(State):
    tail: Tensor  # (B, window - 1, D): the newest tokens


class WindowMLP(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: WindowMLPConfig, site: Site) -> None:
        super().__init__()
        self.config, self.width = config, site.width
        seen, hidden = config.window * site.width, config.hidden or 2 * site.width
        self.up = Linear(seen, hidden)
        self.out = Linear(hidden, site.width)
        self.direct = Linear(seen, site.width, bias=False) if config.direct else None

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> WindowState:
        return WindowState(torch.zeros(batch, self.config.window - 1, self.width, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: WindowState | None = None) -> Tensor:
        if state is None:
            seen = windows(x, seq, self.config.window)
        else:
            refuse_unreadable(seq)
            seen = _side_by_side(torch.cat([state.tail, x], 1), self.config.window)
            state.tail = next_tail(x, state.tail, seq.lengths, seq.dense)
        y = self.out(torch.tanh(self.up(seen)))
        return y if self.direct is None else y + self.direct(seen)


def windows(x: Tensor, seq: Seq, size: int) -> Tensor:
    """The last `size` tokens at each place, (B, T, size · D) or (N, size · D), the newest first."""
    if not seq.is_packed:
        return _side_by_side(F.pad(x, (0, 0, size - 1, 0)), size)
    steps = [F.pad(x, (0, 0, back, -back)) if back < len(x) else torch.zeros_like(x) for back in range(size)]
    return torch.cat([step.masked_fill((seq.pos < back)[:, None], 0) for back, step in enumerate(steps)], -1)


def _side_by_side(x: Tensor, size: int) -> Tensor:
    """(B, size - 1 + T, D) to (B, T, size · D)."""
    length = x.shape[1] - size + 1
    return torch.cat([x[:, size - 1 - back : size - 1 - back + length] for back in range(size)], -1)
