"""The token shift: each token beside the one before it (Peng et al. 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attentif.nn.mixer import refuse_unreadable
from attentif.nn.seq import Seq
from attentif.nn.state import State


@dataclass(slots=True)
class ShiftState(State):
    last: Tensor  # (B, D): the newest token of each row

    def shift(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, T, D): the token before each; the newest ones are kept for the next call."""
        before = torch.cat([self.last[:, None], x[:, :-1]], 1)
        if seq.dense:
            self.last = x[:, -1]
        else:
            self.last = torch.where(seq.lengths[:, None] > 0, x.flatten(0, 1)[seq.last().clamp(min=0)], self.last)
        return before


def shifted(x: Tensor, seq: Seq, state: ShiftState | None) -> Tensor:
    """The token before each token, zero before the first."""
    if state is not None:
        refuse_unreadable(seq)
        return state.shift(x, seq)
    before = nn.functional.pad(x, (0, 0, 1, -1))
    return before.masked_fill((seq.pos == 0)[:, None], 0) if seq.is_packed else before


def shares(width: int, power: float) -> Tensor:
    """(i / D)^power: the first components look back more than the last, the first layers more than the last."""
    return (torch.arange(width) / width) ** power
