"""Who is next to whom.

A batch of sequences is either *padded*, x (B, T, D) with the sequences at the left of their rows, or *packed*, x (N, D) with the
sequences end to end. Everything that works token by token need not know which; a mixer asks its `Seq`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Seq:
    """The layout of a batch. Build it with `Seq.padded` or `Seq.packed`.

    `pos` counts within each sequence, from `start` on; `dense` says that no place is padding, which lets mixers leave masks out.
    """

    pos: Tensor  # (B, T) or (N,): place of each token in its own sequence
    valid: Tensor  # (B, T) or (N,): False on padding
    lengths: Tensor  # (B,): tokens of each sequence in this call, what came before `start` not counted
    max_len: int  # the longest of them
    end: int  # one past the place of the furthest token of any row
    dense: bool  # every place holds a token
    cu: Tensor | None = None  # packed only, (B + 1,): where each sequence begins, and the end of the last
    start: Tensor | None = None  # (B,): tokens read before this call; None where all rows are at their beginning
    offset: int | None = 0  # the same as a plain number where all rows share it, else None
    marks: Tensor | None = None  # (B, T) or (N,): tokens that a task singles out (Longformer's global ones)

    @classmethod
    def padded(
        cls, lengths: Tensor | Sequence[int], width: int | None = None, start: int | Tensor = 0, *, marks: Tensor | None = None
    ) -> Self:
        """Rows of `width` places, the first `lengths[b]` of which are tokens; `start` tokens of each row were read before."""
        lengths = torch.as_tensor(lengths)
        longest = int(lengths.max()) if lengths.numel() else 0
        width = longest if width is None else width
        if longest > width:
            raise ValueError(f"a sequence of {longest} tokens does not fit in {width} places")
        steps = torch.arange(width, device=lengths.device).expand(len(lengths), width)
        offset = _common(start)
        begin = torch.as_tensor(start, device=lengths.device).expand(len(lengths))
        before, pos = (None, steps) if offset == 0 else (begin, steps + begin[:, None])
        end = int((begin + lengths).max()) if offset is None else offset + longest
        dense = bool((lengths == width).all())
        return cls(pos, steps < lengths[:, None], lengths, longest, end, dense, start=before, offset=offset, marks=marks)

    @classmethod
    def packed(cls, lengths: Tensor | Sequence[int], *, marks: Tensor | None = None) -> Self:
        """Sequences end to end, without padding."""
        lengths = torch.as_tensor(lengths)
        cu = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        total = int(cu[-1])
        pos = torch.arange(total, device=lengths.device) - torch.repeat_interleave(cu[:-1], lengths)
        valid = torch.ones(total, dtype=torch.bool, device=lengths.device)
        longest = int(lengths.max()) if lengths.numel() else 0
        return cls(pos, valid, lengths, longest, longest, True, cu=cu, marks=marks)

    @property
    def is_packed(self) -> bool:
        return self.cu is not None

    @property
    def batch(self) -> int:
        """How many sequences there are."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """How many tokens there are, padding not counted."""
        return self.valid.numel() if self.dense else int(self.lengths.sum())

    @property
    def places(self) -> Tensor:
        """`pos` of a padded batch, as one row (1, T) where all rows share it: masks and biases are then made once for all."""
        return self.pos if self.offset is None else self.pos[:1]

    @property
    def row(self) -> Tensor:
        """(B, T) or (N,): the sequence that each place belongs to."""
        rows = torch.arange(self.batch, device=self.pos.device)
        return torch.repeat_interleave(rows, self.lengths) if self.is_packed else rows[:, None].expand_as(self.pos)

    def valid_padded(self) -> Tensor:
        """(B, T): `valid` of the same sequences when padded."""
        if self.cu is None:
            return self.valid
        return torch.arange(self.max_len, device=self.pos.device) < self.lengths[:, None]

    def cells(self, width: int) -> Tensor:
        """(N,), packed only: the place of each token in rows of `width` places, the rows end to end."""
        return self.row * width + self.pos

    def first(self) -> Tensor:
        """Index, in the flattened (B·T) or (N,) places, of each sequence's first token."""
        if self.cu is not None:
            return self.cu[:-1]
        return torch.arange(self.batch, device=self.pos.device) * self.pos.shape[1]

    def last(self) -> Tensor:
        """Index, in the flattened places, of each sequence's last token."""
        return self.first() + self.lengths - 1

    def mirrored(self, x: Tensor) -> Tensor:
        """x (B, T, ...) or (N, ...) with each sequence read from its last token to its first; padding stays. Twice, it is x again."""
        if self.cu is not None:
            return x.index_select(0, (self.cu[:-1] + self.lengths - 1)[self.row] - self.pos)
        steps = torch.arange(x.shape[1], device=x.device)
        place = torch.where(self.valid, self.lengths[:, None] - 1 - steps, steps)
        return x.flatten(0, 1).index_select(0, (self.first()[:, None] + place).flatten()).unflatten(0, self.valid.shape)

    def following(self) -> Self:
        """The next token of every row: what a decoding step reads after this."""
        if self.pos.shape[-1] == 1 and self.dense:  # after a step, nearly everything stays
            pos, offset = self.pos + 1, None if self.offset is None else self.offset + 1
            return replace(self, pos=pos, end=self.end + 1, start=pos[:, 0], offset=offset)
        start = self.lengths if self.start is None else self.start + self.lengths
        return type(self).padded(torch.ones_like(self.lengths), 1, start)

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
    """A padded (B, T, ...) tensor as a packed (N, ...) one."""
    if seq.start is not None:
        raise ValueError("only sequences that stand at their beginning can be packed")
    return x[seq.valid], Seq.packed(seq.lengths, marks=None if seq.marks is None else seq.marks[seq.valid])


def unpack(x: Tensor, seq: Seq, width: int | None = None) -> Tensor:
    """A packed (N, ...) tensor as a padded (B, T, ...) one, zeros on the padding."""
    if seq.cu is None:
        raise ValueError("only a packed sequence can be unpacked")
    width = seq.max_len if width is None else width
    empty = x.new_zeros(seq.batch * width, *x.shape[1:])
    return empty.index_copy(0, seq.cells(width), x).unflatten(0, (seq.batch, width))
