"""Sequences of different lengths in one flat array, from which batches are gathered without a Python loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.models import Input
from attentif.nn.seq import Seq

Ints = NDArray[np.int64]
Rows = Sequence[int] | Ints
UNSCORED = -100  # a label that no loss counts: torch's own number for it


@dataclass(frozen=True, slots=True)
class Ragged:
    """Row r is `flat[starts[r] : starts[r] + lengths[r]]`."""

    flat: NDArray[np.integer[Any]]
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, arrays: Sequence[NDArray[np.integer[Any]]]) -> Self:
        lengths = np.fromiter((len(array) for array in arrays), dtype=np.int64, count=len(arrays))
        flat = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)
        return cls(flat, np.cumsum(lengths) - lengths, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> NDArray[np.integer[Any]]:
        return self.flat[self.starts[row] : self.starts[row] + self.lengths[row]]

    def trim(self, *, first: int = 0, last: int = 0) -> "Ragged":
        """The rows without their first or last tokens, as a view."""
        return Ragged(self.flat, self.starts + first, self.lengths - first - last)

    def values(self, rows: Rows, *, packed: bool, fill: int) -> Tensor:
        """(B, T) with `fill` beyond each row's end, or (N,) packed."""
        places, inside = self.places(rows, packed=packed)
        return torch.from_numpy(np.where(inside, self.flat[places], fill).astype(np.int64))

    def places(self, rows: Rows, *, packed: bool) -> tuple[Ints, NDArray[np.bool_]]:
        """Indices in `flat` of the tokens of these rows, (B, T) or packed (N,), and a mask without padding."""
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        if packed:
            ends = np.cumsum(lengths)
            places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.starts[chosen] - ends + lengths, lengths)
            return places, np.ones(len(places), dtype=bool)
        steps = np.arange(lengths.max(initial=0))
        inside = steps < lengths[:, None]
        return np.where(inside, self.starts[chosen, None] + steps, 0), inside

    def input(self, rows: Rows, *, packed: bool, pad: int) -> Input:
        """The rows as a frontend's input."""
        lengths = torch.from_numpy(self.lengths[np.asarray(rows, dtype=np.int64)])
        return Input(self.values(rows, packed=packed, fill=pad), Seq.from_packed(lengths) if packed else Seq.from_padded(lengths))
