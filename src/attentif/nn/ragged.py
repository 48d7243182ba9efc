"""Padding packed sequences around kernels that need rectangular batches.

CPUs have no ragged attention kernel, and a block-diagonal mask over the whole pack would cost n². So tokens stay packed in tokenwise layers
and are padded only around the kernel, in groups of similar length.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attentif.nn.seq import Seq

STEP = 16  # lengths that round up to the same multiple share a group


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences of similar length, as rows of a padded batch."""

    seq: Seq
    index: Tensor  # (rows, width): packed place of each cell; the last token again on the padding
    tokens: Tensor | None  # the cells, row by row, that hold a token; None: all

    # index_select: the gradient of x[index] is several times slower on CPU

    def pad(self, x: Tensor) -> Tensor:
        """Pad packed (N, ...) to this group's (rows, width, ...)."""
        return x.index_select(0, self.index.flatten()).unflatten(0, self.index.shape)

    def pack(self, y: Tensor) -> Tensor:
        """Pack (rows, width, ...) to the group's own tokens, concatenated."""
        cells = y.flatten(0, 1)
        return cells if self.tokens is None else cells.index_select(0, self.tokens)


@dataclass(frozen=True, slots=True)
class Groups:
    members: list[Group]
    order: Tensor | None  # where each packed token stands among the groups' tokens; None: already in order

    def __iter__(self) -> Iterator[Group]:
        return iter(self.members)

    def join(self, parts: list[Tensor]) -> Tensor:
        """Restore the packed order of the groups' tokens."""
        together = parts[0] if len(parts) == 1 else torch.cat(parts)
        return together if self.order is None else together.index_select(0, self.order)


_known: WeakKeyDictionary[Seq, Groups] = WeakKeyDictionary()  # every layer groups the same Seq


def group_by_length(seq: Seq) -> Groups:
    """Group packed sequences by similar length."""
    if seq not in _known:
        _known[seq] = _group(seq)
    return _known[seq]


def map_groups(work: Callable[..., Tensor], seq: Seq, *packed: Tensor) -> Tensor:
    """Apply `work(*padded, seq)` to every group of packed (N, ...) tensors; restore packed order."""
    groups = group_by_length(seq)
    return groups.join([group.pack(work(*(group.pad(t) for t in packed), group.seq)) for group in groups])


def _group(seq: Seq) -> Groups:
    if seq.cu is None:
        raise ValueError("only packed sequences are grouped")
    lengths, begins = seq.lengths, seq.cu[:-1]
    members, tokens = [], []
    steps = (lengths + STEP - 1) // STEP
    for step in torch.unique(steps[steps > 0]):  # skip empty sequences
        rows = (steps == step).nonzero().squeeze(1)
        own = Seq.from_padded(lengths[rows])
        index = begins[rows, None] + torch.minimum(own.pos, lengths[rows, None] - 1)
        if seq.marks is not None:
            own = Seq.from_padded(lengths[rows], marks=seq.marks[index])
        cells = None if own.dense else own.valid.flatten().nonzero().squeeze(1)
        members.append(Group(own, index, cells))
        tokens.append(index.flatten() if cells is None else index.flatten()[cells])
    if len(members) == 1:
        return Groups(members, None)
    order = torch.empty(int(seq.cu[-1]), dtype=torch.long, device=seq.cu.device)
    order[torch.cat(tokens)] = torch.arange(len(order), device=order.device)
    return Groups(members, order)
