"""What a mixer of fixed memory wrote at every earlier place, kept only while a tape is open: its map can then reach back before this call.

A state that is a sum, or the last of a recurrence, cannot say what each earlier token weighs. Once a piece is read unwatched, what was
kept is let go.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.nn.seq import Seq
from attentif.nn.state import State


@dataclass(slots=True)
class SumState(State):
    """A sum over the tokens read so far."""

    sums: Tensor  # (B, H, F, K)
    past: Tensor | None = None  # (B, S, ...): by place, what the weights are worked out from; only while a tape is open


def with_past(past: Tensor | None, new: Tensor, seq: Seq) -> Tensor | None:
    """The values (B, S, ...) of every place up to the furthest, zero where nothing was written.

    `new` (B, T, ...) are those of this call; None where the tape was opened after the sequence had begun.
    """
    if past is None and seq.start is not None:
        return None
    known = new.new_zeros(len(new), seq.end, *new.shape[2:])
    if past is not None:
        known[:, : past.shape[1]] = past[:, : seq.end]
    known[seq.row[seq.valid], seq.pos[seq.valid]] = new.detach()[seq.valid]
    return known


def whole_past(past: Tensor | None) -> Tensor:
    """The same, or an error for the person who asked for a map that cannot be worked out."""
    if past is None:
        raise ConfigError("the map reaches back before the tape was opened: record from the first token on")
    return past


def back_only(q_pos: Tensor, keys: int, valid: Tensor) -> Tensor:
    """(B, T, S): whether key s = 0 ... keys - 1 is not later than the query, and the query is a token."""
    return (torch.arange(keys, device=q_pos.device) <= q_pos[..., None]) & valid[..., None]
