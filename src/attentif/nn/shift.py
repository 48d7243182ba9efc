"""The token shift: each token paired with the previous one (Peng et al. 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attentif.nn.mixer import check_streamable
from attentif.nn.seq import Seq
from attentif.nn.state import State


@dataclass(slots=True)
class ShiftState(State):
    last: Tensor  # (B, D): the newest token of each row

    def shift(self, x: Tensor, seq: Seq) -> Tensor:
        """Return the previous token of each (B, T, D); store the newest for the next call."""
        before = torch.cat([self.last[:, None], x[:, :-1]], 1)
        if seq.dense:
            self.last = x[:, -1]
        else:
            self.last = torch.where(seq.lengths[:, None] > 0, x.flatten(0, 1)[seq.last().clamp(min=0)], self.last)
        return before


def token_shift(x: Tensor, seq: Seq, state: ShiftState | None) -> Tensor:
    """Return the previous token of each token, zero before the first."""
    if state is not None:
        check_streamable(seq, state)
        return state.shift(x, seq)
    before = nn.functional.pad(x, (0, 0, 1, -1))
    return before.masked_fill((seq.pos == 0)[:, None], 0) if seq.is_packed else before


def mix_ratios(width: int, power: float) -> Tensor:
    """(i / D)^power: early components and early layers look back more."""
    return (torch.arange(width) / width) ** power
