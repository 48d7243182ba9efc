"""Fixed window: an MLP over the concatenated vectors of the last k tokens (Bengio et al. 2003).

    y_t = W tanh(H [x_t; x_{t−1}; …; x_{t−k+1}] + d) + b  (+ V [x_t; …; x_{t−k+1}])        x_s = 0 before the start

    k        `window`: what is further back does not exist for it
    H        (hidden, k·D): each position of the window has weights of its own
    V        the direct connections of the paper, an option

The first neural language model: weights grow with the window and are not shared between its positions.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.kernels.conv import next_tail
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.seq import Seq
from attentif.nn.state import State


@MIXERS.register
class WindowMLPConfig(MixerConfig):
    """A feed-forward network over the last k tokens, concatenated."""

    cost: ClassVar[str] = "T·k"

    kind: Literal["window-mlp"] = Field("window-mlp", description="a feed-forward network over the last tokens, concatenated")
    window: int = Field(8, gt=0, description="tokens in the window, the newest included")
    hidden: int | None = Field(None, gt=0, description="width of the hidden layer; by default twice the model's")
    direct: bool = Field(False, description="direct connections around the hidden layer (Bengio)")


@dataclass(slots=True)
class WindowMLPState(State):
    tail: Tensor  # (B, window - 1, D): the newest tokens


class WindowMLP(Mixer, config=WindowMLPConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: WindowMLPConfig, site: Site) -> None:
        super().__init__()
        self.config, self.width = config, site.width
        seen, hidden = config.window * site.width, config.hidden or 2 * site.width
        self.up = Linear(seen, hidden)
        self.out = Linear(hidden, site.width)
        self.direct = Linear(seen, site.width, bias=False) if config.direct else None

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> WindowMLPState:
        return WindowMLPState(torch.zeros(batch, self.config.window - 1, self.width, device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: WindowMLPState | None = None) -> Tensor:
        if state is None:
            seen = gather_windows(x, seq, self.config.window)
        else:
            check_streamable(seq, state)
            seen = _concat_windows(torch.cat([state.tail, x], 1), self.config.window)
            state.tail = next_tail(x, state.tail, seq.lengths, seq.dense)
        y = self.out(torch.tanh(self.up(seen)))
        return y if self.direct is None else y + self.direct(seen)


def gather_windows(x: Tensor, seq: Seq, size: int) -> Tensor:
    """(B, T, size · D) or (N, size · D): the last `size` tokens at each position, newest first."""
    if not seq.is_packed:
        return _concat_windows(F.pad(x, (0, 0, size - 1, 0)), size)
    steps = [F.pad(x, (0, 0, back, -back)) if back < len(x) else torch.zeros_like(x) for back in range(size)]
    return torch.cat([step.masked_fill((seq.pos < back)[:, None], 0) for back, step in enumerate(steps)], -1)


def _concat_windows(x: Tensor, size: int) -> Tensor:
    """(B, size - 1 + T, D) to (B, T, size · D)."""
    length = x.shape[1] - size + 1
    return torch.cat([x[:, size - 1 - back : size - 1 - back + length] for back in range(size)], -1)
