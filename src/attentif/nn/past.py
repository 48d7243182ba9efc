"""History of a fixed-memory mixer, kept only while a tape is open, so that maps can reach back.

A state that is a sum, or the last of a recurrence, does not contain the weight of each earlier token. The history is dropped when a chunk
is read without recording.
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
    past: Tensor | None = None  # (B, S, ...): by place, what the weights are computed from; only while a tape is open


def append_past(past: Tensor | None, new: Tensor, seq: Seq) -> Tensor | None:
    """Return the values (B, S, ...) of every position so far, zero where nothing was read.

    `new` (B, T, ...) are those of this call; None where the tape was opened after the sequence had begun.
    """
    if past is None and seq.start is not None:
        return None
    known = new.new_zeros(len(new), seq.end, *new.shape[2:])
    if past is not None:
        known[:, : past.shape[1]] = past[:, : seq.end]
    known[seq.row[seq.valid], seq.pos[seq.valid]] = new.detach()[seq.valid]
    return known


def require_past(past: Tensor | None) -> Tensor:
    """Return the history, or raise if recording began after the first token."""
    if past is None:
        raise ConfigError("the map reaches back before the tape was opened: record from the first token on")
    return past


def causal_mask(q_pos: Tensor, keys: int, valid: Tensor) -> Tensor:
    """(B, T, S): whether key s = 0 ... keys - 1 is not later than a valid query."""
    return (torch.arange(keys, device=q_pos.device) <= q_pos[..., None]) & valid[..., None]
