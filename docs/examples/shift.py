"""A mixer of your own in one file: each token mixed with the one before it.

    y_t = W (a ⊙ x_t + (1 − a) ⊙ x_{t−1}),   x_{−1} = 0

`a` is learned, one number a component. RWKV calls this a token shift (Peng et al. 2023).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.seq import Seq
from attentif.nn.state import State


@MIXERS.register
class ShiftConfig(MixerConfig):
    """Each token mixed with the one before it."""

    kind: Literal["shift"] = Field("shift", description="each token mixed with the one before it")
    start: float = Field(0.5, ge=0, le=1, description="share of the token itself before training")


@dataclass(slots=True)
class ShiftState(State):
    last: Tensor  # (B, D): the newest token of each row


class Shift(Mixer, config=ShiftConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: ShiftConfig, site: Site) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.full((site.width,), config.start))
        self.out = nn.Linear(site.width, site.width)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> ShiftState:
        return ShiftState(torch.zeros(batch, self.share.numel(), device=device, dtype=dtype))

    def forward(self, x: Tensor, seq: Seq, state: ShiftState | None = None) -> Tensor:
        check_streamable(seq, state)
        before = x.roll(1, dims=-2)  # of a padded (B, T, D) or a packed (N, D) batch
        first = (seq.pos == 0)[..., None]
        before = before.masked_fill(first, 0)
        if state is not None:
            before = torch.cat([state.last[:, None], before[:, 1:]], 1)
            state.last = torch.where(seq.lengths[:, None] > 0, x.flatten(0, 1)[seq.last().clamp(min=0)], state.last)
        return self.out(self.share * x + (1 - self.share) * before)
