"""Texts read as wholes: the documents of a stream, those that are too long cut into equal passages, never across two documents.

[CLS] passage [SEP]
[CLS] beginning [SEP] rest [SEP]        pairs: half of the rests are those of a passage of another document, drawn anew each time
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from attentif.data import TokenStream
from attentif.errors import DataError
from attentif.models import Batch, Input
from attentif.tasks.baselines import MOST_NGRAM_TOKENS
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.text import Tokenizer
from attentif.text.explain import format_token, is_byte_level

BLOCK = 1 << 22  # tokens looked through at once for the ends of documents
SENTENCE_ENDS = tuple(".!?…⏎")


class Noise(Protocol):
    """Hides or replaces tokens."""

    def __call__(self, ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Ids of any shape with some changed, and the labels that the task asks for; drawn from torch's own generator by default."""
        ...


@dataclass(frozen=True, slots=True)
class NoisyBatch(Batch):
    """Passages with noise; the labels are what the task asks at each place."""

    strange: Tensor | None = None  # of pairs, (B,): 0 where the second text follows the first, 1 where it is another's


@dataclass(frozen=True)
class Passages:
    """One split, a passage a row: tokens `starts[row]` to `starts[row] + sizes[row]` of the stream."""

    blank_lines: ClassVar[bool] = False  # whether they part the documents of plain text
    name: str
    stream: TokenStream
    tokenizer: Tokenizer
    starts: Ints
    sizes: Ints
    documents: Ints  # the number of the document that each passage is of; passages follow one another
    noise: Noise | None = None
    live: bool = False  # the training split: noise is drawn anew in every batch

    @classmethod
    def of(cls, name: str, stream: TokenStream, tokenizer: Tokenizer, context: int) -> Self:
        """All the text of a stream, in passages of at most `context` tokens with the special ones around them."""
        first, size = _documents(stream, tokenizer.eos)
        parts = -(-size // (context - cls.extra_tokens()))
        documents = np.repeat(np.arange(len(first)), parts)
        part = np.arange(len(documents)) - np.repeat(np.cumsum(parts) - parts, parts)
        begins, ends = (first[documents] + size[documents] * (part + more) // parts[documents] for more in (0, 1))
        kept = ends - begins >= cls.min_tokens()
        return cls(name, stream, tokenizer, begins[kept], (ends - begins)[kept], documents[kept])

    @staticmethod
    def extra_tokens() -> int:
        """Special tokens of a row."""
        return 2

    @staticmethod
    def min_tokens() -> int:
        """Tokens that a row needs."""
        return 1

    @cached_property
    def lengths(self) -> Ints:
        return self.sizes + self.extra_tokens()

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, row: int) -> Ints:
        return self.stream.window(int(self.starts[row]), int(self.sizes[row])).astype(np.int64)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        batch = self.read(rows, packed=packed)
        if self.noise is None or not self.live:
            return batch
        ids, labels = self.noise(batch.source.data)
        return NoisyBatch(replace(batch.source, data=ids), labels=labels, rows=batch.rows, strange=batch.labels)

    def read(self, rows: Rows, *, packed: bool = False) -> Batch:
        """Without noise."""
        chosen = np.asarray(rows, dtype=np.int64)
        cls, sep = self.tokenizer.cls, self.tokenizer.sep
        own = Ragged.of([np.concatenate([[cls], self.text(row), [sep]]) for row in chosen.tolist()])
        return Batch(own.input(np.arange(len(own)), packed=packed, pad=self.tokenizer.pad), rows=tuple(chosen.tolist()))

    def running_text(self, most: int = MOST_NGRAM_TOKENS) -> Ints:
        """Passages one after the other, [CLS] and [SEP] around each, up to so many tokens: to be counted in."""
        cls, sep = np.array([self.tokenizer.cls]), np.array([self.tokenizer.sep])
        return np.concatenate([part for text in self.texts(most) for part in (cls, text, sep)])

    def texts(self, most: int = MOST_NGRAM_TOKENS) -> Iterator[Ints]:
        """The first passages that fit into a number of tokens, special ones included."""
        return (self.text(row) for row in np.flatnonzero(np.cumsum(self.sizes + 2) <= most).tolist())

    def place(self, row: int) -> str:
        return f"{self.name}, document {int(self.documents[row]) + 1:,}"

    def pick(self, tokens: int) -> Ints:
        """Rows with about this many tokens in total, from all over the split; 0: all rows."""
        share = min(1.0, tokens / max(int(self.sizes.sum()), 1)) if tokens else 1.0
        return np.unique(np.linspace(0, len(self) - 1, max(1, round(share * len(self)))).astype(np.int64))


@dataclass(frozen=True)
class PassagePairs(Passages):
    """Beginnings of passages, and rests that follow them (`Batch.labels` 0, as in BERT) or come from elsewhere (1)."""

    blank_lines: ClassVar[bool] = True  # or no second text could come from another document of the same file
    generator: torch.Generator | None = None  # None: torch's own, set by the loop for each step

    def __post_init__(self) -> None:
        if len(self) and self.documents[0] == self.documents[-1]:
            what = "the second text of a pair comes from another document, and there is one document only"
            way_out = "of a table each row is a document, of plain text each file, or what stands between its blank lines"
            raise DataError(f"{self.name}: {what}; {way_out}")

    @staticmethod
    def extra_tokens() -> int:
        return 3

    @staticmethod
    def min_tokens() -> int:
        return 2

    @cached_property
    def longest(self) -> int:
        """Tokens of the largest pair, special ones not counted."""
        return int(self.sizes.max(initial=0))

    def with_generator(self, generator: torch.Generator) -> Self:
        return replace(self, generator=generator)

    @cached_property
    def ends_sentence(self) -> Ints:
        """(V,) whether a sentence may end with a token."""
        byte_level = is_byte_level(self.tokenizer)
        words = [format_token(self.tokenizer.rust.id_to_token(number) or "", byte_level) for number in range(self.tokenizer.vocab)]
        return np.array([word.endswith(SENTENCE_ENDS) for word in words])

    @cached_property
    def borders(self) -> tuple[Ints, Ints]:
        """The first passage of each row's document, and the first of the next document."""
        low, high = (np.searchsorted(self.documents, self.documents, side=side) for side in ("left", "right"))
        return low, high

    def read(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen, (low, high) = np.asarray(rows, dtype=np.int64), self.borders
        draws = torch.rand(len(chosen), 4, generator=self.generator).double().numpy()
        cls, sep = self.tokenizer.cls, self.tokenizer.sep
        ids, segments, strange = [], [], []
        for row, (cut, fate, other, other_cut) in zip(chosen.tolist(), draws, strict=True):
            text = self.text(row)
            place = self._find_cut(text, cut)
            first, second = text[:place], text[place:]
            if fate < 0.5:
                second = self._rest_of(_outside(int(low[row]), int(high[row]), len(self), other), other_cut)[: self.longest - len(first)]
            strange.append(int(fate < 0.5))
            ids.append(np.concatenate([[cls], first, [sep], second, [sep]]))
            segments.append(np.repeat([0, 1], [len(first) + 2, len(second) + 1]))
        own, sides = Ragged.of(ids), Ragged.of(segments)
        all_rows = np.arange(len(own))
        source = own.input(all_rows, packed=packed, pad=self.tokenizer.pad)
        source = Input(source.data, source.seq, sides.values(all_rows, packed=packed, fill=0))
        return Batch(source, labels=torch.tensor(strange), rows=tuple(chosen.tolist()))

    def _find_cut(self, text: Ints, draw: float) -> int:
        """Where the beginning ends: after a sentence if one ends inside, else anywhere."""
        ends = np.flatnonzero(self.ends_sentence[text[:-1]]) + 1
        return int(ends[int(draw * len(ends))]) if len(ends) else 1 + int(draw * (len(text) - 1))

    def _rest_of(self, row: int, draw: float) -> Ints:
        text = self.text(row)
        return text[self._find_cut(text, draw) :]


def _outside(low: int, high: int, count: int, draw: float) -> int:
    """A number below `count` that is not from `low` to `high`, each as likely as the next."""
    other = int(draw * (count - (high - low)))
    return other + (high - low) * (other >= low)


def _documents(stream: TokenStream, end: int) -> tuple[Ints, Ints]:
    """Where each document of a stream begins, and how many tokens it has; empty ones are left out."""
    found = [start + np.flatnonzero(stream.window(start, min(BLOCK, len(stream) - start)) == end) for start in range(0, len(stream), BLOCK)]
    ends = np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
    first = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64) if len(ends) else ends
    full = ends > first
    return first[full], (ends - first)[full]
