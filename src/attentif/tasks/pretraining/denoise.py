"""Denoising: the hidden pieces of a text, written by a decoder: T5's way of learning from text alone (Raffel et al. 2020).

A corpus is cut into pieces of `context` tokens. What is hidden is drawn anew in every step (`corruption`); in an evaluation each piece has
gaps of its own, the same ones each time.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.heads import LanguageHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, device_of, iterate_batches, min_limit, pick_evenly, say_all
from attentif.tasks.details import GapAnswer, require_details
from attentif.tasks.metrics import Slice, perplexity, share
from attentif.tasks.pretraining.corruption import Marks, corrupted_lengths, count_hidden, sample_spans, sentinel
from attentif.tasks.pretraining.denoise_report import DenoiseDetails, Fill, Gaps, denoise_baselines, denoise_sections
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.seq2seq.base import check_reads_and_writes
from attentif.tasks.streams import read_stream, read_streams
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TextRecorder, TokenizerSource
from attentif.text import Tokenizer
from attentif.text.learned import TrainedTokenizerConfig
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import quote

SHOWN = 6  # pieces with their gaps in the report
GAP = re.compile(r"_{2,}")  # how somebody who asks marks what is missing


@TASKS.register
class DenoiseConfig(TaskConfig):
    """The hidden pieces of a text."""

    kind: Literal["denoise"] = Field("denoise", description="span corruption with an encoder and a decoder (T5)")
    context: int = Field(128, gt=1, description="tokens of a passage before corruption")
    density: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are masked")
    mean_span: float = Field(3.0, ge=1, description="mean length of a masked span")
    eval_tokens: int = Field(
        100_000, ge=0, description="validation tokens scored during training (0: all); the whole split is scored at the end"
    )

    def build(self) -> "Denoise":
        return Denoise(self)


@dataclass(frozen=True)
class TextPieces:
    """One split, a piece of text a row. A batch holds the whole text, or, of the training split, one with gaps drawn anew."""

    name: str
    stream: TokenStream
    tokenizer: Tokenizer
    config: DenoiseConfig
    context: int
    live: bool = False  # the training split: gaps are drawn anew in every batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.stream), self.context)
        return whole + (rest > 1)  # of one token nothing can be hidden and something shown

    @cached_property
    def sizes(self) -> Ints:
        return np.minimum(len(self.stream) - np.arange(len(self)) * self.context, self.context)

    @cached_property
    def lengths(self) -> Ints:
        """What is read and what is written, which depend on the size alone."""
        both = {size: corrupted_lengths(size, self.config.density, self.config.mean_span) for size in set(self.sizes.tolist())}
        return np.array([both[size] for size in self.sizes.tolist()], dtype=np.int64).reshape(-1, 2)

    def tokens(self, row: int) -> Ints:
        """[SEP] between documents: an [EOS] among the tokens to write would end the writing."""
        tokens = self.stream.window(row * self.context, int(self.sizes[row])).astype(np.int64)
        return np.where(tokens == self.tokenizer.eos, self.tokenizer.sep, tokens)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        whole = Ragged.of([self.tokens(row) for row in chosen.tolist()])
        batch = Batch(whole.input(np.arange(len(chosen)), packed=packed, pad=self.tokenizer.pad), rows=tuple(chosen.tolist()))
        return self.hide(batch, np.random.default_rng(int(torch.randint(2**62, ())))) if self.live else batch

    @cached_property
    def marks(self) -> Marks:
        return Marks.of(self.tokenizer)

    def hide(self, batch: Batch, rng: np.random.Generator | None = None) -> Batch:
        """The batch with gaps: drawn by `rng`, or each row's own."""
        seq = batch.source.seq
        flat = batch.source.data[seq.valid].cpu().numpy()
        pairs = []
        for row, tokens in zip(batch.rows, np.split(flat, np.cumsum(seq.lengths.cpu().numpy())[:-1]), strict=True):
            own = np.random.default_rng([0, row]) if rng is None else rng
            pairs.append(self.marks.corrupt(tokens, sample_spans(len(tokens), self.config.density, self.config.mean_span, own)))
        return _build_batch(pairs, self.marks, batch.rows, packed=seq.is_packed).to(batch.source.data.device)

    def place(self, row: int) -> str:
        start = row * self.context
        return f"{self.name}, tokens {start:,} to {start + int(self.sizes[row]):,}"


class Denoise(Task[TaskState, TextPieces]):
    config: DenoiseConfig
    metric = "token_accuracy"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_reads_and_writes(model, self.config.kind)

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, TextPieces]:
        context = self._context(model)
        streams = read_streams(data, self._with_sentinels(text, context), say)
        tokenizer, notes = streams.tokenizer, list(streams.notes)
        marks = self._marks(tokenizer, context)
        train, valid, test = (
            TextPieces(name, getattr(streams, name), tokenizer, self.config, context) for name in ("train", "valid", "test")
        )
        for split in (train, valid, test):
            if not len(split):
                raise DataError(f"{split.name} has {len(split.stream)} token: there is nothing to hide")
        hidden, spans = count_hidden(context, self.config.density, self.config.mean_span)
        notes.append(f"pieces of {context} tokens, {hidden} of them hidden in {spans} spans; {len(marks.sentinels)} sentinels")
        say_all(notes, say)
        sizes = Sizes(tokenizer.vocab, target_vocab=tokenizer.vocab, max_len=int(train.lengths.max()))
        return Prepared(
            state or TaskState(), replace(train, live=True), valid, test, {"tokenizer": tokenizer}, sizes, streams.digest, notes
        )

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> TextPieces:
        tokenizer, context = tokenizers["tokenizer"], self._context(model)
        self._marks(tokenizer, context)
        return TextPieces("test", read_stream(data, tokenizer, say), tokenizer, self.config, context)

    def _context(self, model: ModelConfig) -> int:
        """Tokens of a piece: what is read is never longer, once something is hidden."""
        return min_limit(self.config.context, model.max_len and model.max_len - 1, model.max_target_len)

    def _with_sentinels(self, text: TokenizerSource, context: int) -> TokenizerSource:
        """Give a tokenizer that is still to be trained as many sentinels as a passage needs."""
        own = text.source if isinstance(text, TextRecorder) else text
        if not isinstance(own, TrainedTokenizerConfig):
            return text
        needed = [sentinel(n) for n in range(count_hidden(context, self.config.density, self.config.mean_span)[1])]
        try:
            more = own.replace(special=[*own.special, *(name for name in needed if name not in own.special)])
            return replace(text, source=more) if isinstance(text, TextRecorder) else more
        except ValidationError as error:
            _, message = problems_of(error, type(own))[0]
            raise ConfigError(
                f"task.context: pieces of {context} tokens need {len(needed)} sentinels, and tokenizer.{message}; shorten the pieces"
            ) from None

    def _marks(self, tokenizer: Tokenizer, context: int) -> Marks:
        """The special tokens; ConfigError if there are fewer sentinels than a passage needs."""
        marks = Marks.of(tokenizer)
        needed = count_hidden(context, self.config.density, self.config.mean_span)[1]
        if len(marks.sentinels) < needed:
            raise UsageError(f"task.context: pieces of {context} tokens need {needed} sentinels, the tokenizer has {len(marks.sentinels)}")
        return marks

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch))

    def score(self, model: Model, state: TaskState, dataset: TextPieces, options: EvalOptions) -> Evaluation:
        rows = np.arange(len(dataset))
        if options.quick and 0 < self.config.eval_tokens < len(dataset.stream):
            rows = pick_evenly(len(dataset), max(1, self.config.eval_tokens // dataset.context))
        nats, count, hits, total = 0.0, 0, 0, 0
        by_span: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # by tokens of a gap: right ones, all
        special = torch.from_numpy(np.append(dataset.marks.sentinels, dataset.marks.eos)).to(device_of(model))
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options, rows):
                logits, labels, _, _ = scored_logits(model, dataset.hide(batch))
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                count += len(labels)
                right, marks = logits.argmax(-1) == labels, torch.isin(labels, special)
                hits, total = hits + int((right & ~marks).sum()), total + int((~marks).sum())
                _count_spans(right.cpu().numpy(), marks.cpu().numpy(), by_span)
        loss = nats / count
        accuracy, around = share(hits, total)
        scores = {"token_accuracy": accuracy, "loss": loss, "perplexity": perplexity(loss)}
        if options.quick:
            return Evaluation(scores, examples=len(rows), split=dataset.name)
        details: DenoiseDetails = {"by_span": _by_span(by_span), "gaps": self._gaps(model, dataset), "tokens": total}
        return Evaluation(scores, {"token_accuracy": around}, len(rows), details, dataset.name)

    def _gaps(self, model: Model, dataset: TextPieces) -> list[Gaps]:
        """Pieces of the split in words: what was read, what stood in the gaps, what the model put there."""
        rows = pick_evenly(len(dataset), SHOWN)
        batch = dataset.hide(dataset.batch(rows.tolist()).to(device_of(model)))
        found = _fill_gaps(model, dataset.marks, batch.source)
        shown: list[Gaps] = []
        decode = lambda tokens: _decode(dataset.tokenizer, tokens)
        for place, row in enumerate(rows.tolist()):
            tokens = dataset.tokens(row)
            spans = sample_spans(len(tokens), self.config.density, self.config.mean_span, np.random.default_rng([0, row]))
            ends = [0, *(end for span in spans for end in span), len(tokens)]
            texts = [decode(tokens[ends[at] : ends[at + 1]]) for at in range(0, len(ends), 2)]
            fills: list[Fill] = [{"true": decode(tokens[a:b]), "found": decode(found[place][n])} for n, (a, b) in enumerate(spans)]
            shown.append({"texts": texts, "fills": fills})
        return shown

    def baselines(self, prepared: Prepared[TaskState, TextPieces], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        known = np.concatenate([train.tokens(row) for row in range(len(train))])
        asked, before = [], []
        for row in range(len(test)):
            tokens = test.tokens(row)
            for a, b in sample_spans(len(tokens), self.config.density, self.config.mean_span, np.random.default_rng([0, row])):
                asked.append(tokens[a:b])
                before.append(tokens[a - 1 : b - 1])  # the first part is a visible one: a > 0
        return denoise_baselines(known, np.concatenate(asked), np.concatenate(before), test.tokenizer.vocab, say)

    # -------------------------------------------------------------------------------------------------------------- answers

    def predict(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Texts whose gaps, written ___, are filled; `details` has what was put in each."""
        tokenizer = tokenizers["tokenizer"]
        marks, found = Marks.of(tokenizer), []
        for example in as_examples(inputs, "text"):
            texts = GAP.split(example["text"])
            read = _encode_gaps(tokenizer, marks, texts)
            source = Input(torch.from_numpy(read)[None], Seq.from_padded([len(read)]))
            fills = [tokenizer.decode(fill).strip() for fill in _fill_gaps(model, marks, source)[0][: len(texts) - 1]]
            whole = "".join(piece for pair in zip(texts, [*fills, ""], strict=True) for piece in pair)
            found.append(Prediction(example["text"], whole, details=GapAnswer(gaps=fills)))
        return found

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return denoise_sections(evaluation)

    def examples(self, prepared: Prepared[TaskState, TextPieces], count: int = 3) -> list[Example]:
        """Beginnings of test pieces, with one gap."""
        test = prepared.test
        decode = test.tokenizer.decode
        rows = pick_evenly(len(test), count + 2)[1:-1]
        own = [test.tokens(row)[:18] for row in rows.tolist()]
        return [{"text": f"{decode(tokens[:6])} ___ {decode(tokens[8:])}"} for tokens in own if len(tokens) > 8]

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer, found = tokenizers["tokenizer"], []
        marks = Marks.of(tokenizer)
        for example, answer in zip(as_examples(inputs, "text"), self.predict(model, state, tokenizers, inputs), strict=True):
            read = _encode_gaps(tokenizer, marks, GAP.split(example["text"]))
            written = [np.array([marks.bos])]
            for number, fill in enumerate(require_details(answer, GapAnswer)["gaps"]):
                written += [
                    marks.sentinels[number : number + 1],
                    np.asarray(tokenizer.ids_batch([f" {fill}"], wrap="none")[0], np.int64),
                ]
            pair = (read, np.concatenate([*written, np.array([marks.eos])]))
            tokens = readable_tokens(tokenizer, pair[1])
            batch = _build_batch([pair], marks, (0,), packed=False)
            title = map_title(example["text"], quote(answer.output))
            found += attention_maps(model, batch, tokens[:-1], source=readable_tokens(tokenizer, read), writes=tokens[1:], title=title)
        return found


def _encode_gaps(tokenizer: Tokenizer, marks: Marks, texts: Sequence[str]) -> Ints:
    """The tokens of a text in pieces, sentinels between them."""
    if len(texts) == 1:
        raise UsageError("the text has no gap: write ___ for what is missing")
    if len(texts) - 1 > len(marks.sentinels):
        raise UsageError(f"the text has {len(texts) - 1} gaps, and this model fills at most {len(marks.sentinels)}")
    pieces = [np.asarray(ids, dtype=np.int64) for ids in tokenizer.ids_batch([text.rstrip() for text in texts], wrap="none")]
    between = [*np.split(marks.sentinels[: len(texts) - 1], len(texts) - 1), np.array([marks.eos])]
    return np.concatenate([part for pair in zip(pieces, between, strict=True) for part in pair])


def _fill_gaps(model: Model, marks: Marks, source: Input) -> list[list[list[int]]]:
    """For each row, the tokens that the model writes for each sentinel."""
    room = 2 * max(source.seq.max_len, 8)
    options = GenerateOptions(max_tokens=min(room, model.config.max_target_len or room))
    written = generate(model, [[marks.bos]] * source.seq.batch, options, source=source, stop_tokens=[marks.eos])
    return [marks.parse_fills(answer.tokens) for answer in written]


def _decode(tokenizer: Tokenizer, tokens: Ints | list[int]) -> str:
    """Tokens as text, ¶ where one document ends and the next begins."""
    ids = np.asarray(tokens, dtype=np.int64)
    return " ¶ ".join(tokenizer.decode(part) for part in np.split(ids, np.flatnonzero(ids == tokenizer.sep)))


def _build_batch(pairs: Sequence[tuple[Ints, Ints]], marks: Marks, rows: tuple[int, ...], *, packed: bool) -> Batch:
    """What is read and what is written as one batch, the decoder's input one place before its labels."""
    source, target = (Ragged.of([pair[side] for pair in pairs]) for side in (0, 1))
    every = np.arange(len(pairs))
    return Batch(
        source.input(every, packed=packed, pad=marks.pad),
        target.trim(last=1).input(every, packed=packed, pad=marks.pad),
        target.trim(first=1).values(every, packed=packed, fill=UNSCORED),
        rows,
    )


def _count_spans(right: Any, marks: Any, by_span: dict[int, list[int]]) -> None:
    """Add the gaps of a batch, whose tokens stand between special ones, to the counts of their sizes."""
    borders = np.flatnonzero(marks)
    for start, end in zip(borders[:-1] + 1, borders[1:], strict=True):
        if end > start:
            by_span[int(end - start)][0] += int(right[start:end].sum())
            by_span[int(end - start)][1] += int(end - start)


def _by_span(by_span: dict[int, list[int]], most: int = 8) -> list[Slice]:
    """In the form of `metrics.by_length`; long gaps together."""
    parts = [(size, size, [size]) for size in range(1, most)] + [(most, max(by_span, default=most), [s for s in by_span if s >= most])]
    found: list[Slice] = []
    for low, high, sizes in parts:
        right, total = (sum(by_span[size][side] for size in sizes if size in by_span) for side in (0, 1))
        if total:
            value, around = share(right, total)
            found.append({"low": low, "high": max(low, high), "value": value, "interval": [*around], "examples": total})
    return found
