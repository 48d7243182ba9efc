"""Splits whose rows are the encoded texts of a table."""

from dataclasses import dataclass

import numpy as np

from attentif.data import Table
from attentif.models import Batch
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """One split: token ids of each row of the table."""

    table: Table
    ids: Ragged
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def lengths(self) -> Ints:
        return self.ids.lengths

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, row: int) -> str:
        return self.table.place(row)


@dataclass(frozen=True, kw_only=True)
class LabelledTokens(EncodedRows):
    """One split with a label, or UNSCORED, for each token."""

    labels: Ragged

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = self.ids.input(chosen, packed=packed, pad=self.tokenizer.pad)
        return Batch(source, labels=self.labels.values(chosen, packed=packed, fill=UNSCORED), rows=tuple(chosen.tolist()))
