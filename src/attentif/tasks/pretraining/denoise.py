"""Denoising: the hidden pieces of a text, written by a decoder: T5's way of learning from text alone (Raffel et al. 2020).

A corpus is cut into pieces of `context` tokens. What is hidden is drawn anew in every step (`corruption`); in an evaluation each piece has
gaps of its own, the same ones each time.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError

from attentif.config import problems_of
from attentif.data import DataConfig, TokenStream
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig, evaluating
from attentif.models.heads import LanguageHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, device_of, each_batch, limit_of
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.metrics import perplexity, share
from attentif.tasks.pretraining.corruption import Marks, counts, hidden_spans, lengths, sentinel
from attentif.tasks.pretraining.denoise_report import denoise_baselines, denoise_sections
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.streams import read_stream, read_streams
from attentif.tasks.task import (
    TASKS,
    Baseline,
    Dataset,
    Evaluation,
    Example,
    Loss,
    Prediction,
    Prepared,
    Progress,
    Say,
    Sizes,
    Task,
    TaskConfig,
    Tokenizers,
)
from attentif.tasks.tokens import scored_logits, token_loss
from attentif.tasks.writing.seq2seq import check_reads_and_writes
from attentif.text import Tokenizer, TokenizerConfig
from attentif.text.learned import Learned
from attentif.view.blocks import AttentionMaps, Section

SHOWN = 6  # pieces with their gaps in the report
GAP = re.compile(r"_{2,}")  # how somebody who asks marks what is missing


@TASKS.register
class DenoiseConfig(TaskConfig):
    """The hidden pieces of a text."""

    kind: Literal["denoise"] = Field("denoise", description="the hidden pieces of a text, by an encoder and a decoder (T5)")
    context: int = Field(128, gt=1, description="tokens of a piece of text, before some are hidden")
    density: float = Field(0.15, gt=0, lt=1, description="share of the tokens that is hidden")
    mean_span: float = Field(3.0, ge=1, description="mean number of tokens hidden together")
    eval_tokens: int = Field(100_000, ge=0, description="validation tokens scored during training (0: all); all at the end")

    def build(self) -> "Denoise":
        return Denoise(self)


@dataclass(frozen=True)
class Pieces:
    """One split, a piece of text a row; a batch holds the whole text, from which `step` hides some."""

    name: str
    stream: TokenStream
    tokenizer: Tokenizer
    config: DenoiseConfig
    context: int

    def __len__(self) -> int:
        whole, rest = divmod(len(self.stream), self.context)
        return whole + (rest > 1)  # of one token nothing can be hidden and something shown

    @cached_property
    def sizes(self) -> Ints:
        return np.minimum(len(self.stream) - np.arange(len(self)) * self.context, self.context)

    @cached_property
    def lengths(self) -> Ints:
        """What is read and what is written, which depend on the size alone."""
        both = {size: lengths(size, self.config.density, self.config.mean_span) for size in set(self.sizes.tolist())}
        return np.array([both[size] for size in self.sizes.tolist()], dtype=np.int64).reshape(-1, 2)

    def tokens(self, row: int) -> Ints:
        """[SEP] between documents: an [EOS] among the tokens to write would end the writing."""
        tokens = self.stream.window(row * self.context, int(self.sizes[row])).astype(np.int64)
        return np.where(tokens == self.tokenizer.eos, self.tokenizer.sep, tokens)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        whole = Ragged.of([self.tokens(row) for row in chosen.tolist()])
        return Batch(whole.input(np.arange(len(chosen)), packed=packed, pad=self.tokenizer.pad), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        start = row * self.context
        return f"{self.name}, tokens {start:,} to {start + int(self.sizes[row]):,}"


class Denoise(Task):
    config: DenoiseConfig
    metric = "token_accuracy"
    marks: Marks

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_reads_and_writes(model, self.config.kind)

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        context = self._context(model)
        streams = read_streams(data, self._with_sentinels(text, context), say)
        tokenizer, notes = streams.tokenizer, list(streams.notes)
        self._know(tokenizer, context)
        train, valid, test = (Pieces(name, getattr(streams, name), tokenizer, self.config, context) for name in ("train", "valid", "test"))
        for split in (train, valid, test):
            if not len(split):
                raise DataError(f"{split.name} has {len(split.stream)} token: there is nothing to hide")
        hidden, spans = counts(context, self.config.density, self.config.mean_span)
        notes.append(f"pieces of {context} tokens, {hidden} of them hidden in {spans} spans; {len(self.marks.sentinels)} sentinels")
        for note in notes:
            say(note)
        sizes = Sizes(tokenizer.vocab, target_vocab=tokenizer.vocab, max_len=int(train.lengths.max()))
        return Prepared(self.config, train, valid, test, {"tokenizer": tokenizer}, sizes, streams.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Pieces:
        tokenizer, context = tokenizers["tokenizer"], self._context(model)
        self._know(tokenizer, context)
        return Pieces("test", read_stream(data, tokenizer, say), tokenizer, self.config, context)

    def _context(self, model: ModelConfig) -> int:
        """Tokens of a piece: what is read is never longer, once something is hidden."""
        return limit_of(self.config.context, model.max_len and model.max_len - 1, model.max_target_len)

    def _with_sentinels(self, text: TokenizerConfig | Tokenizers, context: int) -> TokenizerConfig | Tokenizers:
        """A tokenizer still to be trained gets as many sentinels as a piece needs."""
        if not isinstance(text, Learned):
            return text
        needed = [sentinel(n) for n in range(counts(context, self.config.density, self.config.mean_span)[1])]
        try:
            return text.changed(special=[*text.special, *(name for name in needed if name not in text.special)])
        except ValidationError as error:
            _, message = problems_of(error, type(text))[0]
            raise ConfigError(
                f"task.context: pieces of {context} tokens need {len(needed)} sentinels, and tokenizer.{message}; shorten the pieces"
            ) from None

    def _know(self, tokenizer: Tokenizer, context: int) -> None:
        self.marks = Marks.of(tokenizer)
        needed = counts(context, self.config.density, self.config.mean_span)[1]
        if len(self.marks.sentinels) < needed:
            raise UsageError(
                f"task.context: pieces of {context} tokens need {needed} sentinels, the tokenizer has {len(self.marks.sentinels)}"
            )

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        """Gaps drawn anew from torch's generator, which the loop seeds for each step."""
        return Loss(*token_loss(model, self.hidden(batch, np.random.default_rng(int(torch.randint(2**62, ()))))))

    def hidden(self, batch: Batch, rng: np.random.Generator | None = None) -> Batch:
        """The batch with gaps: drawn by `rng`, or each row's own."""
        seq = batch.source.seq
        flat = batch.source.data[seq.valid].cpu().numpy()
        pairs = []
        for row, tokens in zip(batch.rows, np.split(flat, np.cumsum(seq.lengths.cpu().numpy())[:-1]), strict=True):
            own = np.random.default_rng([0, row]) if rng is None else rng
            pairs.append(self.marks.corrupted(tokens, hidden_spans(len(tokens), self.config.density, self.config.mean_span, own)))
        return _paired(pairs, self.marks, batch.rows, packed=seq.is_packed).to(batch.source.data.device)

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, Pieces)
        rows = np.arange(len(dataset))
        if quick and 0 < self.config.eval_tokens < len(dataset.stream):
            rows = np.unique(np.linspace(0, len(dataset) - 1, max(1, self.config.eval_tokens // dataset.context)).astype(np.int64))
        nats, count, hits, total = 0.0, 0, 0, 0
        by_span: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # by tokens of a gap: right ones, all
        special = torch.from_numpy(np.append(self.marks.sentinels, self.marks.eos)).to(device_of(model))
        with evaluating(model):
            for batch in each_batch(model, dataset, budget, progress, rows):
                logits, labels, _, _ = scored_logits(model, self.hidden(batch))
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                count += len(labels)
                right, marks = logits.argmax(-1) == labels, torch.isin(labels, special)
                hits, total = hits + int((right & ~marks).sum()), total + int((~marks).sum())
                _count_spans(right.cpu().numpy(), marks.cpu().numpy(), by_span)
        loss = nats / count
        accuracy, around = share(hits, total)
        scores = {"token_accuracy": accuracy, "loss": loss, "perplexity": perplexity(loss)}
        if quick:
            return Evaluation(scores, examples=len(rows), split=dataset.name)
        details = {"by_span": _by_span(by_span), "gaps": self._gaps(model, dataset), "tokens": total}
        return Evaluation(scores, {"token_accuracy": around}, len(rows), details, dataset.name)

    def _gaps(self, model: Model, dataset: Pieces) -> list[dict[str, Any]]:
        """Pieces of the split in words: what was read, what stood in the gaps, what the model put there."""
        rows = np.unique(np.linspace(0, len(dataset) - 1, SHOWN).astype(np.int64))
        batch = self.hidden(dataset.batch(rows.tolist()).to(device_of(model)))
        found, shown = self._fills(model, batch.source), []
        decode = lambda tokens: _in_words(dataset.tokenizer, tokens)
        for place, row in enumerate(rows.tolist()):
            tokens = dataset.tokens(row)
            spans = hidden_spans(len(tokens), self.config.density, self.config.mean_span, np.random.default_rng([0, row]))
            ends = [0, *(end for span in spans for end in span), len(tokens)]
            texts = [decode(tokens[ends[at] : ends[at + 1]]) for at in range(0, len(ends), 2)]
            fills = [{"true": decode(tokens[a:b]), "found": decode(found[place][n])} for n, (a, b) in enumerate(spans)]
            shown.append({"texts": texts, "fills": fills})
        return shown

    def _fills(self, model: Model, source: Input) -> list[list[list[int]]]:
        """For each row, the tokens that the model writes for each sentinel."""
        room = 2 * max(source.seq.max_len, 8)
        options = GenerateOptions(max_tokens=min(room, model.config.max_target_len or room))
        written = generate(model, [[self.marks.bos]] * source.seq.batch, options, source=source, stop_tokens=[self.marks.eos])
        return [self.marks.filled(answer.tokens) for answer in written]

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Pieces)
        assert isinstance(test, Pieces)
        known = np.concatenate([train.tokens(row) for row in range(len(train))])
        asked, before = [], []
        for row in range(len(test)):
            tokens = test.tokens(row)
            for a, b in hidden_spans(len(tokens), self.config.density, self.config.mean_span, np.random.default_rng([0, row])):
                asked.append(tokens[a:b])
                before.append(tokens[a - 1 : b - 1])  # the first part is a visible one: a > 0
        return denoise_baselines(known, np.concatenate(asked), np.concatenate(before), test.tokenizer.vocab, say)

    # -------------------------------------------------------------------------------------------------------------- answers

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """Texts whose gaps, written ___, are filled; `details` has what was put in each."""
        tokenizer = tokenizers["tokenizer"]
        self.marks = Marks.of(tokenizer)
        found = []
        for example in as_examples(inputs, "text"):
            texts = GAP.split(example["text"])
            read = self._asked(tokenizer, texts)
            source = Input(torch.from_numpy(read)[None], Seq.padded([len(read)]))
            fills = [tokenizer.decode(fill).strip() for fill in self._fills(model, source)[0][: len(texts) - 1]]
            whole = "".join(piece for pair in zip(texts, [*fills, ""], strict=True) for piece in pair)
            found.append(Prediction(example["text"], whole, details={"gaps": fills}))
        return found

    def _asked(self, tokenizer: Tokenizer, texts: Sequence[str]) -> Ints:
        """The tokens of a text in pieces, sentinels between them."""
        if len(texts) == 1:
            raise UsageError("the text has no gap: write ___ for what is missing")
        if len(texts) - 1 > len(self.marks.sentinels):
            raise UsageError(f"the text has {len(texts) - 1} gaps, and this model fills at most {len(self.marks.sentinels)}")
        pieces = [np.asarray(ids, dtype=np.int64) for ids in tokenizer.ids_batch([text.rstrip() for text in texts], wrap="none")]
        marks = [*np.split(self.marks.sentinels[: len(texts) - 1], len(texts) - 1), np.array([self.marks.eos])]
        return np.concatenate([part for pair in zip(pieces, marks, strict=True) for part in pair])

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return denoise_sections(evaluation)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Beginnings of test pieces, with one gap."""
        test = prepared.test
        assert isinstance(test, Pieces)
        decode = test.tokenizer.decode
        rows = np.unique(np.linspace(0, len(test) - 1, count + 2).astype(np.int64)[1:-1])
        own = [test.tokens(row)[:18] for row in rows.tolist()]
        return [{"text": f"{decode(tokens[:6])} ___ {decode(tokens[8:])}"} for tokens in own if len(tokens) > 8]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer, found = tokenizers["tokenizer"], []
        for example, answer in zip(as_examples(inputs, "text"), self.predict(model, tokenizers, inputs), strict=True):
            read = self._asked(tokenizer, GAP.split(example["text"]))
            written = [np.array([self.marks.bos])]
            for number, fill in enumerate(answer.details["gaps"]):
                written += [
                    self.marks.sentinels[number : number + 1],
                    np.asarray(tokenizer.ids_batch([f" {fill}"], wrap="none")[0], np.int64),
                ]
            pair = (read, np.concatenate([*written, np.array([self.marks.eos])]))
            tokens = shown_tokens(tokenizer, pair[1])
            batch = _paired([pair], self.marks, (0,), packed=False)
            title = f"« {example['text']} » → « {answer.output} »"
            found += attention_maps(model, batch, tokens[:-1], source=shown_tokens(tokenizer, read), writes=tokens[1:], title=title)
        return found


def _in_words(tokenizer: Tokenizer, tokens: Ints | list[int]) -> str:
    """Tokens as text, ¶ where one document ends and the next begins."""
    ids = np.asarray(tokens, dtype=np.int64)
    return " ¶ ".join(tokenizer.decode(part) for part in np.split(ids, np.flatnonzero(ids == tokenizer.sep)))


def _paired(pairs: Sequence[tuple[Ints, Ints]], marks: Marks, rows: tuple[int, ...], *, packed: bool) -> Batch:
    """What is read and what is written as one batch, the decoder's input one place before its labels."""
    source, target = (Ragged.of([pair[side] for pair in pairs]) for side in (0, 1))
    every = np.arange(len(pairs))
    return Batch(
        source.input(every, packed=packed, pad=marks.pad),
        target.trimmed(last=1).input(every, packed=packed, pad=marks.pad),
        target.trimmed(first=1).values(every, packed=packed, fill=UNSCORED),
        rows,
    )


def _count_spans(right: Any, marks: Any, by_span: dict[int, list[int]]) -> None:
    """Add the gaps of a batch, whose tokens stand between special ones, to the counts of their sizes."""
    borders = np.flatnonzero(marks)
    for start, end in zip(borders[:-1] + 1, borders[1:], strict=True):
        if end > start:
            by_span[int(end - start)][0] += int(right[start:end].sum())
            by_span[int(end - start)][1] += int(end - start)


def _by_span(by_span: dict[int, list[int]], most: int = 8) -> list[dict[str, Any]]:
    """In the form of `metrics.by_length`; long gaps together."""
    parts = [(size, size, [size]) for size in range(1, most)] + [(most, max(by_span, default=most), [s for s in by_span if s >= most])]
    found = []
    for low, high, sizes in parts:
        right, total = (sum(by_span[size][side] for size in sizes if size in by_span) for side in (0, 1))
        if total:
            value, around = share(right, total)
            found.append({"low": low, "high": max(low, high), "value": value, "interval": list(around), "examples": total})
    return found
