"""Pictures with the words that ask for them, as batches."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.data.images import Pictures
from attentif.data.picture_files import Bytes
from attentif.models import Batch, Input
from attentif.nn.seq import Seq
from attentif.tasks.ragged import UNSCORED, Ints, Rows

if TYPE_CHECKING:
    from attentif.tasks.vision.paint_report import RealPictures

THIRDS = (1 / 3, 2 / 3)  # of a class by ink: below is thin, above is bold


@dataclass(frozen=True)
class Drawable:
    """One split: every picture with every prompt that fits it."""

    pictures: Pictures
    tokens: Ints  # (pictures, n): their patches by number, after the words of the vocabulary
    prompts: Ints  # (prompts, words): ids of all that can be asked for
    rows: Ints  # (rows, 2): which picture, which prompt
    real: "RealPictures | None" = None  # the training pictures that drawings are compared with; None: they are not at hand

    @property
    def name(self) -> str:
        return self.pictures.name

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lengths(self) -> Ints:
        return np.full(len(self), self.prompts.shape[1] + self.tokens.shape[1] - 1, dtype=np.int64)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """Rows all have one length: packed, they stand end to end."""
        chosen = self.rows[np.asarray(rows, dtype=np.int64)]
        ids = torch.from_numpy(np.concatenate([self.prompts[chosen[:, 1]], self.tokens[chosen[:, 0]]], 1))
        data, labels = ids[:, :-1], ids[:, 1:].clone()
        labels[:, : self.prompts.shape[1] - 1] = UNSCORED
        lengths = torch.full((len(ids),), data.shape[1])
        if packed:
            data, labels = data.flatten(), labels.flatten()
        seq = Seq.from_packed(lengths) if packed else Seq.from_padded(lengths)
        return Batch(Input(data, seq), labels=labels, rows=tuple(int(row) for row in rows))

    def place(self, row: int) -> str:
        return self.pictures.place(int(self.rows[row, 0]))


def ink_of(pixels: Bytes) -> NDArray[np.float64]:
    """(N,): the mean of a picture, white being 1."""
    return pixels.reshape(len(pixels), -1).mean(1) / 255


def thirds_of_ink(pictures: Pictures) -> dict[str, tuple[float, float]]:
    """Between which amounts of ink the middle third of each class lies."""
    labels, ink = np.array(pictures.table["label"]), ink_of(pictures.pixels)
    return {str(label): tuple(np.quantile(ink[labels == label], THIRDS).tolist()) for label in np.unique(labels)}
