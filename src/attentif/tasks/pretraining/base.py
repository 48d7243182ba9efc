"""Shared by the tasks that learn from corrupted texts: `masked` and `replaced`.

In training a text is spoiled anew each time it is read. What is scored is spoiled once, by a generator with a seed of its own, so that two
models, or two moments of one, are asked the same.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import Field

from attentif.data import DataConfig
from attentif.data.config import SPLITS
from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.nn.seq import Seq
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import Example, Inputs, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, check_one_stack, min_limit, say_all
from attentif.tasks.pretraining.passages import Noise, PassagePairs, Passages
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.streams import read_stream, read_streams
from attentif.tasks.tokenizers import TokenizerSource
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps

SEED = 0  # of what is spoiled in evaluation


class ReadingConfig(TaskConfig):
    """Options shared by the tasks that learn from corrupted texts."""

    context: int = Field(128, gt=4, description="tokens of a passage with its special tokens, at most the model's limit")
    share: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are masked or replaced")
    whole_words: bool = Field(False, description="mask or replace whole words")
    eval_tokens: int = Field(
        200_000, ge=0, description="validation tokens scored during training (0: all); the whole split is scored at the end"
    )


@dataclass(frozen=True)
class Spoiled:
    """A split corrupted once, for scoring; `labels` are the targets of each position."""

    name: str
    true: Ragged  # the ids before
    ids: Ragged
    labels: Ragged
    segments: Ragged | None
    strange: Ints | None  # of pairs: 0 where the second text follows the first, 1 where it is another's
    pad: int

    @property
    def lengths(self) -> Ints:
        return self.ids.lengths

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        source = self.ids.input(rows, packed=packed, pad=self.pad)
        if self.segments is not None:
            source = Input(source.data, source.seq, self.segments.values(rows, packed=packed, fill=0))
        labels = self.labels.values(rows, packed=packed, fill=UNSCORED)
        return Batch(source, labels=labels, rows=tuple(np.asarray(rows, dtype=np.int64).tolist()))

    def place(self, row: int) -> str:
        return f"{self.name}, passage {row + 1:,}"

    def pick_readable(self, count: int) -> list[int]:
        """Rows of medium length from all over the split, for the report."""
        near = np.sort(np.argsort(np.abs(self.lengths - 60), kind="stable")[: 8 * count])
        return near[np.linspace(0, len(near) - 1, min(count, len(near))).astype(np.int64)].tolist()


class PretrainingTask(Task[TaskState, Passages]):
    """Base of the tasks that learn from corrupted texts."""

    config: ReadingConfig

    def check(self, model: ModelConfig) -> None:
        kind = self.config.kind
        check_one_stack(model, kind)
        if not isinstance(model.frontend, TokensConfig):
            raise ConfigError(f"model.frontend: {kind} reads tokens; use for example encoder-tiny")
        if not build_meta(model).caps.bidirectional:
            raise ConfigError(
                f"model: {kind} reads both sides of a token, and this model reads from left to right only; use for example encoder-tiny"
            )

    @property
    def rows(self) -> type[Passages]:
        return Passages

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, Passages]:
        streams = read_streams(data, text, say, blank_lines=self.rows.blank_lines)
        tokenizer, notes = streams.tokenizer, list(streams.notes)
        context = self._context(model)
        if context < self.config.context:
            notes.append(f"passages of {context} tokens, the longest that the model can read (task.context asks for {self.config.context})")
        train, valid, test = (self.rows.of(name, getattr(streams, name), tokenizer, context) for name in SPLITS)
        noise = self.noise(train)
        say_all(notes, say)
        sizes = Sizes(tokenizer.vocab, max_len=context)
        splits = replace(train, noise=noise, live=True), replace(valid, noise=noise), replace(test, noise=noise)
        return Prepared(state or TaskState(), *splits, {"tokenizer": tokenizer}, sizes, streams.digest, notes)

    @abstractmethod
    def noise(self, train: Passages) -> Noise:
        """The corruption, as far as it depends on the training text."""

    def _context(self, model: ModelConfig) -> int:
        return min_limit(self.config.context, model.max_len)

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Passages:
        tokenizer = tokenizers["tokenizer"]
        stream = read_stream(data, tokenizer, say, blank_lines=self.rows.blank_lines)
        passages = self.rows.of("test", stream, tokenizer, self._context(model))
        return replace(passages, noise=self.noise(passages))

    def corrupt(self, dataset: Passages, quick: bool) -> Spoiled:
        """The rows to score: all, or during training a part of a large split."""
        assert dataset.noise is not None
        rows = dataset.pick(self.config.eval_tokens) if quick else np.arange(len(dataset))
        generator = torch.Generator().manual_seed(SEED)
        batch = (dataset.with_generator(generator) if isinstance(dataset, PassagePairs) else dataset).read(rows, packed=True)
        ids, labels = dataset.noise(batch.source.data, generator)
        lengths = batch.source.seq.lengths.numpy()
        ragged = lambda values: Ragged(values.numpy(), np.cumsum(lengths) - lengths, lengths)
        segments = None if batch.source.segments is None else ragged(batch.source.segments)
        strange = None if batch.labels is None else batch.labels.numpy()
        return Spoiled(dataset.name, ragged(batch.source.data), ragged(ids), ragged(labels), segments, strange, dataset.tokenizer.pad)

    def examples(self, prepared: Prepared[TaskState, Passages], count: int = 3) -> list[Example]:
        test = prepared.test
        rows = np.argsort(np.abs(test.sizes - 16), kind="stable")[:count]
        return [{"text": test.tokenizer.decode(test.text(row))[:200]} for row in rows.tolist()]

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        found = []
        for example in as_examples(inputs, "text"):
            ids = self.ids_of(model, tokenizers["tokenizer"], example["text"])
            batch = Batch(Input(torch.tensor([ids]), Seq.from_padded([len(ids)])))
            found += attention_maps(model, batch, readable_tokens(tokenizers["tokenizer"], ids), title=map_title(example["text"]))
        return found

    def ids_of(self, model: Model, tokenizer: Tokenizer, text: str) -> list[int]:
        """Ids of a user's text, which may contain special tokens."""
        return tokenizer.encode(text, specials_in_text=True, max_len=self._context(model.config)).ids
