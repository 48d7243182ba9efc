"""What tasks share that learn from texts read as wholes, by spoiling some tokens: `masked` and `replaced`.

In training a text is spoiled anew each time it is read. What is scored is spoiled once, by a generator with a seed of its own, so that two
models, or two moments of one, are asked the same.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.data.config import SPLITS
from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, limit_of, on_paper
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.pretraining.masking import Vocabulary
from attentif.tasks.pretraining.passages import Pairs, Passages
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.streams import read_stream, read_streams
from attentif.tasks.task import Dataset, Example, Prepared, Say, Sizes, Task, TaskConfig, Tokenizers
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps

SEED = 0  # of what is spoiled in evaluation


class ReadingConfig(TaskConfig):
    """Keys of the tasks that learn from texts read as wholes."""

    context: int = Field(128, gt=4, description="tokens of a passage, special ones included; by the model's limit where that is less")
    share: float = Field(0.15, gt=0, lt=1, description="tokens that are chosen, as a share")
    whole_words: bool = Field(False, description="choose words, all tokens of each, rather than tokens")
    eval_tokens: int = Field(200_000, ge=0, description="validation tokens read during training (0: all); all at the end")


@dataclass(frozen=True)
class Spoiled:
    """A split that is spoiled once and for all, to be scored. `labels` are what the task asks at each place."""

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

    def worth_showing(self, count: int) -> list[int]:
        """Rows from all over the split, the middle-sized ones: long enough to be understood, short enough to be read."""
        near = np.sort(np.argsort(np.abs(self.lengths - 60), kind="stable")[: 8 * count])
        return near[np.linspace(0, len(near) - 1, min(count, len(near))).astype(np.int64)].tolist()


class Reading(Task):
    """What tasks share that learn from texts read as wholes."""

    config: ReadingConfig
    vocabulary: Vocabulary  # of the tokenizer, once the data are read

    def check(self, model: ModelConfig) -> None:
        kind = self.config.kind
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError(f"model: {kind} reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")
        if not isinstance(model.frontend, TokensConfig):
            raise ConfigError(f"model.frontend: {kind} reads tokens; take encoder-tiny, say")
        if not on_paper(model).caps.bidirectional:
            raise ConfigError(
                f"model: {kind} reads both sides of a token, and this model reads from left to right only; take encoder-tiny, say"
            )

    @property
    def rows(self) -> type[Passages]:
        return Passages

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        streams = read_streams(data, text, say, blank_lines=self.rows.blank_lines)
        tokenizer, notes = streams.tokenizer, list(streams.notes)
        context = self._context(model)
        if context < self.config.context:
            notes.append(f"passages of {context} tokens, the longest that the model can read (task.context asks for {self.config.context})")
        self.vocabulary = Vocabulary(tokenizer)
        train, valid, test = (self.rows.of(name, getattr(streams, name), tokenizer, context) for name in SPLITS)
        self.learn_from(train)
        for note in notes:
            say(note)
        sizes = Sizes(tokenizer.vocab, max_len=context)
        return Prepared(self.config, train, valid, test, {"tokenizer": tokenizer}, sizes, streams.digest, notes)

    def use(self, tokenizers: Tokenizers) -> None:
        """Know the tokens of a run that was trained before."""
        self.vocabulary = Vocabulary(tokenizers["tokenizer"])

    def learn_from(self, train: Passages) -> None:
        """What the task itself must know of the training text."""

    def _context(self, model: ModelConfig) -> int:
        return limit_of(self.config.context, model.max_len)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Passages:
        tokenizer = tokenizers["tokenizer"]
        stream = read_stream(data, tokenizer, say, blank_lines=self.rows.blank_lines)
        self.use(tokenizers)
        return self.rows.of("test", stream, tokenizer, self._context(model))

    @abstractmethod
    def spoil(self, ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Ids of any shape with some tokens spoiled, and the labels that the task asks for; drawn from torch's own generator by default."""

    def spoiled_input(self, source: Input) -> tuple[Input, Tensor]:
        """What the model reads in training, and the labels."""
        ids, labels = self.spoil(source.data.cpu())
        device = source.data.device
        return Input(ids.to(device), source.seq, source.segments), labels.to(device)

    def spoiled(self, dataset: Dataset, quick: bool) -> Spoiled:
        """What is scored: all of a split, or, during training, a part of a large one."""
        assert isinstance(dataset, Passages)
        rows = dataset.some(self.config.eval_tokens) if quick else np.arange(len(dataset))
        generator = torch.Generator().manual_seed(SEED)
        batch = (dataset.drawn_by(generator) if isinstance(dataset, Pairs) else dataset).batch(rows, packed=True)
        ids, labels = self.spoil(batch.source.data, generator)
        lengths = batch.source.seq.lengths.numpy()
        ragged = lambda values: Ragged(values.numpy(), np.cumsum(lengths) - lengths, lengths)
        segments = None if batch.source.segments is None else ragged(batch.source.segments)
        strange = None if batch.labels is None else batch.labels.numpy()
        return Spoiled(dataset.name, ragged(batch.source.data), ragged(ids), ragged(labels), segments, strange, dataset.tokenizer.pad)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        test = prepared.test
        assert isinstance(test, Passages)
        rows = np.argsort(np.abs(test.sizes - 16), kind="stable")[:count]
        return [{"text": test.tokenizer.decode(test.text(row))[:200]} for row in rows.tolist()]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        found = []
        for example in as_examples(inputs, "text"):
            ids = self.ids_of(model, tokenizers["tokenizer"], example["text"])
            batch = Batch(Input(torch.tensor([ids]), Seq.padded([len(ids)])))
            found += attention_maps(model, batch, shown_tokens(tokenizers["tokenizer"], ids), title=f"« {example['text']} »")
        return found

    def ids_of(self, model: Model, tokenizer: Tokenizer, text: str) -> list[int]:
        """A text of the user's, in which special tokens may be written."""
        return tokenizer.encode(text, specials_in_text=True, max_len=self._context(model.config)).ids
