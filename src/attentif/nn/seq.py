"""The layout of a batch of sequences.

A batch is either *padded*, x (B, T, D) with each sequence at the left of its row, or *packed*, x (N, D) with the sequences concatenated.
Tokenwise layers treat both alike; mixers ask the `Seq`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Seq:
    """The layout of a batch. Build it with `Seq.from_padded` or `Seq.from_packed`.

    `pos` counts within each sequence, from `start` on; `dense` says that no place is padding, which lets mixers leave masks out.
    """

    pos: Tensor  # (B, T) or (N,): place of each token in its own sequence
    valid: Tensor  # (B, T) or (N,): False on padding
    lengths: Tensor  # (B,): tokens of each sequence in this call
    max_len: int  # the longest of them
    end: int  # one past the place of the furthest token of any row
    dense: bool  # every position holds a token
    cu: Tensor | None = None  # packed only, (B + 1,): cumulative lengths
    start: Tensor | None = None  # (B,): tokens read before this call; None: none
    offset: int | None = 0  # `start` as a number if all rows share it, else None
    marks: Tensor | None = None  # (B, T) or (N,): tokens marked by the task (Longformer's global ones)

    @classmethod
    def from_padded(
        cls, lengths: Tensor | Sequence[int], width: int | None = None, start: int | Tensor = 0, *, marks: Tensor | None = None
    ) -> Self:
        """Layout of rows of `width` positions whose first `lengths[b]` are tokens, after `start` others."""
        lengths = torch.as_tensor(lengths)
        longest = int(lengths.max()) if lengths.numel() else 0
        width = longest if width is None else width
        if longest > width:
            raise ValueError(f"a sequence of {longest} tokens does not fit in {width} positions")
        steps = torch.arange(width, device=lengths.device).expand(len(lengths), width)
        offset = _common(start)
        begin = torch.as_tensor(start, device=lengths.device).expand(len(lengths))
        before, pos = (None, steps) if offset == 0 else (begin, steps + begin[:, None])
        end = int((begin + lengths).max()) if offset is None else offset + longest
        dense = bool((lengths == width).all())
        return cls(pos, steps < lengths[:, None], lengths, longest, end, dense, start=before, offset=offset, marks=marks)

    @classmethod
    def from_packed(cls, lengths: Tensor | Sequence[int], *, marks: Tensor | None = None) -> Self:
        """Layout of sequences concatenated without padding."""
        lengths = torch.as_tensor(lengths)
        cu = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        total = int(cu[-1])
        pos = torch.arange(total, device=lengths.device) - torch.repeat_interleave(cu[:-1], lengths)
        valid = torch.ones(total, dtype=torch.bool, device=lengths.device)
        longest = int(lengths.max()) if lengths.numel() else 0
        return cls(pos, valid, lengths, longest, longest, True, cu=cu, marks=marks)

    @classmethod
    def from_mask(cls, valid: Tensor, *, dense: bool = False) -> Self:
        """Layout of padded rows (B, T) by which places hold tokens; no value is read, so that a graph of any size can be exported."""
        width = valid.shape[1]
        pos = torch.arange(width, device=valid.device).expand(valid.shape)
        return cls(pos, valid, valid.sum(1), width, width, dense)

    @property
    def is_packed(self) -> bool:
        return self.cu is not None

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.lengths.shape[0]

    @property
    def tokens(self) -> int:
        """Number of tokens, padding excluded."""
        return self.valid.numel() if self.dense else int(self.lengths.sum())

    @property
    def shared_pos(self) -> Tensor:
        """`pos` of a padded batch, with one row (1, T) if all rows share it, to build masks once."""
        return self.pos if self.offset is None else self.pos[:1]

    @property
    def row(self) -> Tensor:
        """(B, T) or (N,): index of the sequence of each position."""
        rows = torch.arange(self.batch, device=self.pos.device)
        return torch.repeat_interleave(rows, self.lengths) if self.is_packed else rows[:, None].expand_as(self.pos)

    def padded_mask(self) -> Tensor:
        """(B, T): `valid` of the same sequences when padded."""
        if self.cu is None:
            return self.valid
        return torch.arange(self.max_len, device=self.pos.device) < self.lengths[:, None]

    def padded_index(self, width: int) -> Tensor:
        """(N,), packed only: flat index of each token in rows of `width` positions."""
        return self.row * width + self.pos

    def first(self) -> Tensor:
        """Flat index of each sequence's first token."""
        if self.cu is not None:
            return self.cu[:-1]
        return torch.arange(self.batch, device=self.pos.device) * self.pos.shape[1]

    def last(self) -> Tensor:
        """Flat index of each sequence's last token."""
        return self.first() + self.lengths - 1

    def reverse(self, x: Tensor) -> Tensor:
        """Reverse the tokens of each sequence in x (B, T, ...) or (N, ...); padding stays."""
        if self.cu is not None:
            return x.index_select(0, (self.cu[:-1] + self.lengths - 1)[self.row] - self.pos)
        steps = torch.arange(x.shape[1], device=x.device)
        place = torch.where(self.valid, self.lengths[:, None] - 1 - steps, steps)
        return x.flatten(0, 1).index_select(0, (self.first()[:, None] + place).flatten()).unflatten(0, self.valid.shape)

    def next_step(self) -> Self:
        """Layout of the next decoding step: one more token in every row."""
        if self.pos.shape[-1] == 1 and self.dense:  # after a step, nearly everything stays
            pos, offset = self.pos + 1, None if self.offset is None else self.offset + 1
            return replace(self, pos=pos, end=self.end + 1, start=pos[:, 0], offset=offset)
        start = self.lengths if self.start is None else self.start + self.lengths
        return type(self).from_padded(torch.ones_like(self.lengths), 1, start)

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name in ("pos", "valid", "lengths", "cu", "start", "marks")
            if isinstance(value := getattr(self, name), Tensor)
        }
        return replace(self, **moved)


def _common(start: int | Tensor) -> int | None:
    if isinstance(start, int):
        return start
    if not start.numel():
        return 0
    first = int(start.reshape(-1)[0])
    return first if bool((start == first).all()) else None


def pack(x: Tensor, seq: Seq) -> tuple[Tensor, Seq]:
    """Pack a padded tensor (B, T, ...) to (N, ...)."""
    if seq.start is not None:
        raise ValueError("only sequences without earlier tokens can be packed")
    return x[seq.valid], Seq.from_packed(seq.lengths, marks=None if seq.marks is None else seq.marks[seq.valid])


def unpack(x: Tensor, seq: Seq, width: int | None = None) -> Tensor:
    """Pad a packed tensor (N, ...) to (B, T, ...) with zeros."""
    if seq.cu is None:
        raise ValueError("only a packed sequence can be unpacked")
    width = seq.max_len if width is None else width
    empty = x.new_zeros(seq.batch * width, *x.shape[1:])
    return empty.index_copy(0, seq.padded_index(width), x).unflatten(0, (seq.batch, width))
