"""A split whose rows are the encoded texts of a table: what every such split answers."""

from dataclasses import dataclass

from attentif.data import Table
from attentif.tasks.ragged import Ints, Ragged
from attentif.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """One split: a row of ids for each row of the table."""

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
