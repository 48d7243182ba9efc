"""MXFP4 (OCP 2023): matrices of gpt-oss in four bits a number, and a power of two for each 32 of them.

w = 2^(s − 127) · v        v one of 0, ½, 1, 1½, 2, 3, 4, 6, or these negative; two in a byte, the lower half first

name_blocks    the bytes                      (E, O, I / 32, 16)
name_scales    s of each 32 numbers           (E, O, I / 32)
name           the matrices, as they are in files that are not quantised: (E, I, O), in bfloat16, which holds every w exactly
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from attentif.hub.files import Tensors

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
BLOCKS, SCALES, BIAS = "_blocks", "_scales", 127


def decode_mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """The matrices (E, I, O)."""
    values = torch.tensor([*VALUES, *(-value for value in VALUES)])
    halves = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).int()
    return torch.ldexp(values[halves], scales.int()[..., None] - BIAS).to(torch.bfloat16).flatten(-2).mT


class Mxfp4Tensors(Tensors):
    """The tensors of a folder, those in MXFP4 under their own names."""

    def __init__(self, base: Tensors) -> None:
        self.files, self._open, self._names = base.files, base._open, base._names
        names = (name.removesuffix(BLOCKS) for name in base if name.endswith(BLOCKS))
        self.packed = {name for name in names if f"{name}{SCALES}" in base}

    def __getitem__(self, name: str) -> Tensor:
        own = super().__getitem__
        return decode_mxfp4(own(f"{name}{BLOCKS}"), own(f"{name}{SCALES}")) if name in self.packed else own(name)

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.packed:
            return super().shape(name)
        experts, rows, groups, size = super().shape(f"{name}{BLOCKS}")
        return experts, 2 * groups * size, rows

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        yield from self.packed
        yield from (name for name in self._names if name.removesuffix(BLOCKS).removesuffix(SCALES) not in self.packed)

    def __len__(self) -> int:
        return sum(1 for _ in self)
