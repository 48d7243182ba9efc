"""Which tensor of a Hugging Face folder is which of ours: rows that are read in both directions.

    Row("h.{i}.ln_1.{p}", "decoder.blocks.{i}.attn.norm_in.{p}")                       one is the other
    Row("h.{i}.attn.c_attn.{p}", (".q.{p}", ".k.{p}", ".v.{p}"), Split(transposed=True))   one of theirs is several of ours
    Row("experts.{e}.w1.weight", "ffn.mixer.gate.weight", Stacked(8))                  several of theirs are one of ours

`{i}` counts the blocks, `{p}` is weight or bias, `{e}` counts what is stacked. A row whose tensors our model does not have is passed over;
every tensor of the folder and every one of ours must be met by one row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attentif.errors import ConfigError

PARTS = ("weight", "bias")
Names = tuple[str, ...]


class Operation(Protocol):
    """Between their tensors and ours, without loss in either direction."""

    def theirs(self, pattern: str) -> Names:
        """The names that a pattern stands for."""
        ...

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]: ...

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]: ...


class _OneName:
    def theirs(self, pattern: str) -> Names:
        return (pattern,)


@dataclass(frozen=True)
class Same(_OneName):
    """Nothing to do but the name."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return list(theirs)

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return list(ours)


@dataclass(frozen=True)
class Transposed(_OneName):
    """Matrices stored (in, out), as GPT-2's are, alone or one for each expert; vectors stay as they are."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.mT if tensor.ndim > 1 else tensor for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return self.read(ours)


@dataclass(frozen=True)
class SplitParts(_OneName):
    """Equal parts side by side along the outputs: queries, keys and values in one matrix."""

    parts: int = 3
    transposed: bool = False

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        tensor = theirs[0].T if self.transposed and theirs[0].ndim == 2 else theirs[0]
        return list(tensor.chunk(self.parts))

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        together = torch.cat(list(ours))
        return [together.T if self.transposed and together.ndim == 2 else together]


@dataclass(frozen=True)
class SplitBySize(_OneName):
    """Unequal parts side by side along the outputs."""

    sizes: tuple[int, ...]

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return list(theirs[0].split(list(self.sizes)))

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat(list(ours))]


@dataclass(frozen=True)
class Squeezed(_OneName):
    """A dimension of one entry that we leave out: convolutions of each channel by itself."""

    dim: int

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.squeeze(self.dim) for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.unsqueeze(self.dim) for tensor in ours]


@dataclass(frozen=True, kw_only=True)
class Reshaped(_OneName):
    """The same numbers in another shape; -1 is what follows from the others."""

    theirs_shape: tuple[int, ...]
    ours_shape: tuple[int, ...]

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.ours_shape) for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.theirs_shape) for tensor in ours]


@dataclass(frozen=True)
class SplitByHead(_OneName):
    """The same, the parts of each head next to one another: of equal width (GPT-NeoX), or of these."""

    heads: int
    widths: tuple[int, ...] = (1, 1, 1)  # of a head's parts, or in proportion to them

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        by_head = theirs[0].unflatten(0, (self.heads, -1))
        unit = by_head.shape[1] // sum(self.widths)
        return [part.flatten(0, 1) for part in by_head.split([unit * width for width in self.widths], 1)]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat([part.unflatten(0, (self.heads, -1)) for part in ours], 1).flatten(0, 1)]


@dataclass(frozen=True)
class StackedTensors:
    """Several tensors as one with a dimension more: experts."""

    count: int

    def theirs(self, pattern: str) -> Names:
        return tuple(pattern.replace("{e}", str(number)) for number in range(self.count))

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [torch.stack(list(theirs))]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return list(ours[0].unbind(0))


@dataclass(frozen=True)
class SplitExperts(_OneName):
    """Gate and up of every expert, (E, D, 2I) or biases (E, 2I), as two: side by side, or by turns."""

    turns: bool = False

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        both = theirs[0]
        parts = (both[..., ::2], both[..., 1::2]) if self.turns else both.chunk(2, -1)
        return [part.mT if part.ndim == 3 else part for part in parts]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        parts = [part.mT if part.ndim == 3 else part for part in ours]
        return [torch.stack(parts, -1).flatten(-2) if self.turns else torch.cat(parts, -1)]


@dataclass(frozen=True)
class Repeated(_OneName):
    """One of theirs that several blocks use, as a tensor of each block's own; written where they are still the same."""

    count: int

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [theirs[0], *(theirs[0].clone() for _ in range(self.count - 1))]  # else training one would change all

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        if not ours[0].is_meta and any(not torch.equal(ours[0], other) for other in ours[1:]):
            raise ConfigError("the blocks share their weights there, and these have weights that differ")
        return [ours[0]]


@dataclass(frozen=True)
class Made(_OneName):
    """A tensor that nothing here reads, because it follows from the configuration: passed over when read, made when written."""

    make: Callable[[], Tensor]

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return []

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [self.make()]


@dataclass(frozen=True)
class Skipped(_OneName):
    """A tensor of theirs that is not read: another one is used in its place."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return []

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return []


@dataclass(frozen=True)
class Row:
    """One line of a family's table."""

    theirs: str
    ours: str | Names
    operation: Operation = Same()
    blocks: range | None = None  # which blocks, where it is not all of them
    untied: str | None = None  # the name that is read instead where a file has it; written besides where the output is not tied

    def pairs(self, layers: int) -> Iterator[tuple[Names, Names]]:
        """The names on either side, block by block, weights and biases."""
        ours = (self.ours,) if isinstance(self.ours, str) else self.ours
        blocks = (self.blocks or range(layers)) if "{i}" in self.theirs else range(1)
        for i in blocks:
            for part in PARTS if "{p}" in self.theirs else ("",):
                fill = lambda name, i=i, part=part: name.replace("{i}", str(i)).replace("{p}", part)
                yield tuple(map(fill, self.operation.theirs(self.theirs))), tuple(map(fill, ours))


@dataclass(frozen=True)
class Matched:
    """What a table makes of the tensors of two models."""

    pairs: list[tuple[Names, Names, Operation]]
    missing: list[str]  # of theirs, which ours need
    unexpected: list[str]  # of theirs, which ours have no place for
    unmet: list[str]  # of ours, which no row knows


def match(table: Iterable[Row], theirs: Iterable[str], ours: Iterable[str], layers: int, ignored: Iterable[str] = ()) -> Matched:
    """Go through the table once; nothing is read."""
    there, wanted = set(theirs), set(ours)
    used: set[str] = set()
    met: set[str] = set()
    pairs, missing = [], []
    for row in table:
        for their_names, our_names in row.pairs(layers):
            if not set(our_names) <= wanted:
                continue
            met |= set(our_names)
            if absent := [name for name in their_names if name not in there]:
                missing += absent if our_names else []
                continue
            used |= set(their_names)
            pairs.append((their_names, our_names, row.operation))
    left = {name for name in there - used if not any(name.endswith(ending) for ending in ignored)}
    return Matched(pairs, missing, sorted(left), sorted(wanted - met))


def ours_from(matched: Matched, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Our tensors, one after the other."""
    for their_names, our_names, operation in matched.pairs:
        yield from zip(our_names, operation.read([tensors[name] for name in their_names]), strict=True)


def theirs_from(matched: Matched, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Their tensors, one after the other."""
    for their_names, our_names, operation in matched.pairs:
        yield from zip(their_names, operation.write([tensors[name] for name in our_names]), strict=True)
