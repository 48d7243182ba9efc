"""What a mixer of fixed memory has to keep besides, while someone is looking.

The state of a linear attention or of a gated one is a sum: it cannot say what each earlier token weighs. While a tape is open, its state
also holds the keys of the tokens read; once a piece is read unwatched, they are let go.
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
    seen: Tensor | None = None  # (B, S, ...): by place, what the weights are worked out from; only while a tape is open


def seen_so_far(state: SumState | None, new: Tensor, seq: Seq) -> Tensor | None:
    """(B, S, ...): `new` (B, T, ...) put after what the state has seen; None if the beginning went unseen."""
    if state is None:
        return new
    before = state.seen
    if before is None:
        if seq.offset != 0:
            return None
        before = new.new_zeros(len(new), 0, *new.shape[2:])
    together = torch.cat([before, new.new_zeros(len(new), max(seq.end - before.shape[1], 0), *new.shape[2:])], 1)
    together[seq.row[seq.valid], seq.pos[seq.valid]] = new[seq.valid]
    return together[:, : seq.end]


def known(seen: Tensor | None) -> Tensor:
    """What a record kept, or the reason why it kept nothing."""
    if seen is None:
        raise ConfigError("earlier pieces were read without a tape, and their weights are lost: record from the first token on")
    return seen
