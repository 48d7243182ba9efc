"""A text from another, written by a decoder that reads the encoder's output: what translation, summaries and text-to-text share.

In training the decoder reads the reference shifted by one, [BOS] y, and is scored on y [EOS] (teacher forcing). The source is x [EOS].
A checkpoint of somebody else's has other customs: its tokenizer frames both texts, and `task.start` stands where [BOS] does here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from attentif.data import DataConfig, Roles, Table, load_rows, load_table
from attentif.decode import generate
from attentif.decode.limits import Limits
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig, eval_mode
from attentif.models.heads import LanguageHeadConfig
from attentif.tasks.answers import EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import Example, Inputs, Loss, Prepared, Say, Sizes, State, Task, TaskConfig, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, format_count, map_batches, min_limit, pick_evenly, say_all
from attentif.tasks.language.language import generate_options
from attentif.tasks.metrics import Interval, TextScores, by_group, by_length, exactly, perplexity, share_of, text_scores
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.seq2seq.report import WrittenAnswer, WrittenDetails
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps
from attentif.view.words import quote

SHOWN = 10  # answers, and errors, in the report
SIDE_BY_SIDE = 8192  # tokens of the sources and references read at once while writing: a step of one row costs nearly as much as of many
DRAWS = 500  # of the bootstrap of scores over a whole split

Slice = Callable[[Ints], tuple[float, Interval]]  # the score of some rows, for `by_length`


class Seq2SeqConfig(TaskConfig):
    """Options shared by all tasks of this kind."""

    metric: str
    max_len: int = Field(256, gt=1, description="maximum tokens of a side; longer pairs are dropped from training and truncated elsewhere")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="label smoothing")
    beams: int = Field(1, gt=0, description="beam size; 1: greedy")
    length_penalty: float = Field(1.0, description="length penalty of beam search; 0 favours short answers")
    early_stopping: bool = Field(False, description="end beam search with the first `beams` finished answers")
    max_tokens: int | None = Field(None, gt=0, description="maximum tokens of an answer; by default twice those of the source plus 16")
    limits: Limits = Field(Limits(), description="constraints on the output")
    start: list[str] = Field([], description="tokens that an answer starts with, for imported models; by default [BOS]")
    eval_examples: int = Field(
        200, ge=0, description="validation examples generated during training (0: all); the whole split is scored at the end"
    )


@dataclass(frozen=True)
class Pairs:
    """One split: sources x [EOS], targets [BOS] y [EOS]; and the texts that they are of."""

    table: Table
    source: Ragged
    target: Ragged
    tokenizers: tuple[Tokenizer, Tokenizer]
    sources: list[str]
    references: list[str]

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def lengths(self) -> Ints:
        return np.stack([self.source.lengths, self.target.lengths - 1], 1)  # [BOS] or [EOS]: the target is read without its last

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        reading, writing = self.tokenizers
        return Batch(
            self.source.input(chosen, packed=packed, pad=reading.pad),
            self.target.trim(last=1).input(chosen, packed=packed, pad=writing.pad),
            self.target.trim(first=1).values(chosen, packed=packed, fill=UNSCORED),
            tuple(chosen.tolist()),
        )

    def place(self, row: int) -> str:
        return self.table.place(row)


class Seq2Seq(Task[State, Pairs]):
    """A task whose answer is a text. Subclasses define roles, scores, baselines and report."""

    config: Seq2SeqConfig
    offers = ("translate",)
    scores_by_batch = True
    roles: ClassVar[Roles]  # the first two required ones are the source and the target
    limited_by: ClassVar[str] = "task.max_len"  # what says how long a target may be
    cuts_sources: ClassVar[bool] = False  # a source that is too long is cut in training too, where its beginning says enough

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        self.metric = config.metric

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_reads_and_writes(model, self.config.kind)

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: State | None = None
    ) -> Prepared[State, Pairs]:
        splits = load_table(data, self.roles, say)
        notes = list(splits.notes)
        tables = [self.complete_table(table) for table in (splits.train, splits.valid, splits.test)]
        tokenizers = self.tokenizers(tables[0], text, say)
        train, valid, test = (self._encode(table, pair_tokenizers(tokenizers), model, notes) for table in tables)
        say_all(notes, say)
        longest = max(int(side.lengths.max()) for split in (train, valid, test) for side in (split.source, split.target))
        reading, writing = pair_tokenizers(tokenizers)
        sizes = Sizes(reading.vocab, target_vocab=writing.vocab, max_len=longest)
        state = state or cast("State", self.state_type())
        return Prepared(state, train, valid, test, tokenizers, sizes, splits.digest, notes)

    def read(self, state: State, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Pairs:
        table, notes = load_rows(data, self.roles, say)
        encoded = self._encode(self.complete_table(table), pair_tokenizers(tokenizers), model, notes)
        say_all(notes, say)
        return encoded

    # ------------------------------------------------------------------------------------------------ what a task may change

    def complete_table(self, table: Table) -> Table:
        """The table of a split, checked and completed; the first is that of training."""
        return table

    def sources(self, table: Table) -> list[str]:
        """The texts that the encoder reads."""
        return table[self.roles.required[0]]

    def source_of(self, state: State, example: Example) -> str:
        """The same of one new input."""
        return example[self.reads]

    def references(self, table: Table) -> list[str]:
        return table[self.roles.required[1]]

    def tokenizers(self, train: Table, text: TokenizerSource, say: Say) -> Tokenizers:
        return {"tokenizer": fit_tokenizer(text, "tokenizer", [*self.sources(train), *self.references(train)], say)}

    def limits(self, model: ModelConfig) -> tuple[int, int]:
        """Most tokens of a source and of a target."""
        return min_limit(self.config.max_len, model.max_len), min_limit(self.config.max_len, model.max_target_len)

    def room(self, source: int) -> int:
        """Maximum tokens of an answer to a source of this length: twice as many plus 16."""
        return 2 * source + 16

    def groups(self, table: Table) -> list[str] | None:
        """Kinds of example that are scored apart."""
        return table.columns.get("group")

    def score_texts(self, written: Sequence[str], references: Sequence[str], draws: int) -> TextScores:
        return text_scores(written, references, draws=draws)

    def slices(self, written: list[str], references: list[str]) -> tuple[str, Slice]:
        """The score that is shown by length: its name, and its value for some rows."""
        right = _right(written, references)
        if right.mean() > 0.5:  # where most answers are exactly right, BLEU says little
            return "exact_match", share_of(right)

        def bleu(rows: Ints) -> tuple[float, Interval]:
            chosen = text_scores([written[row] for row in rows], [references[row] for row in rows], draws=100)
            return chosen.scores["bleu"], chosen.intervals["bleu"]

        return "bleu", bleu

    def group_scores(self, written: list[str], references: list[str]) -> dict[str, float]:
        """The scores of one group of examples."""
        scores = text_scores(written, references).scores
        return {"exact_match": scores["exact_match"], "bleu": scores["bleu"]}

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch, self.config.label_smoothing))

    def score(self, model: Model, state: State, dataset: Pairs, options: EvalOptions) -> Evaluation:
        rows = np.arange(len(dataset))
        if options.quick and 0 < self.config.eval_examples < len(dataset):
            rows = pick_evenly(len(dataset), self.config.eval_examples)
        scores = token_scores(model, dataset, options)
        written = self._write(model, dataset, rows, options)
        references = [dataset.references[row] for row in rows.tolist()]
        found = self.score_texts(written, references, 0 if options.quick else DRAWS)
        if options.quick:
            return Evaluation(found.scores | scores, examples=len(rows), split=dataset.name)
        details = self._details(dataset, written, references, found.signatures)
        return Evaluation(found.scores | scores, found.intervals, len(rows), details, dataset.name)

    def _write(self, model: Model, dataset: Pairs, rows: Ints, options: EvalOptions) -> list[str]:
        """Answers to some rows, in their order."""
        found: dict[int, list[int]] = {}
        sizes = replace(options, budget=max(options.budget, SIDE_BY_SIDE))
        for written, answers in map_batches(self._write_batch, model, dataset, sizes, rows):
            found |= zip(written, answers, strict=True)
        return dataset.tokenizers[1].decode_batch(found[row] for row in rows.tolist())

    def _write_batch(self, model: Model, dataset: Pairs, batch: Batch) -> list[list[int]]:
        target = dataset.tokenizers[1]
        decoding = generate_options({"max_tokens": self._most(batch.source.seq.max_len)} | self._limits | self._search)
        prompts = [self.start(target)] * batch.source.seq.batch
        return [answer.tokens for answer in generate(model, prompts, decoding, source=batch.source, stop_tokens=target.ends)]

    def _details(self, dataset: Pairs, written: list[str], references: list[str], signatures: dict[str, str]) -> WrittenDetails:
        right = _right(written, references)
        key, score = self.slices(written, references)

        def show(rows: Ints) -> list[WrittenAnswer]:
            spread = rows[pick_evenly(len(rows), SHOWN)].tolist()
            return [{"source": dataset.sources[row], "written": written[row], "reference": references[row]} for row in spread]

        details: WrittenDetails = {
            "by_length": by_length(dataset.source.lengths, score),
            "by_length_metric": key,
            "answers": show(np.arange(len(dataset))),
            "wrong": show(np.flatnonzero(~right)) if right.mean() > 0.5 else [],
            "signatures": signatures,
        }
        if groups := self.groups(dataset.table):
            own = lambda rows: self.group_scores([written[row] for row in rows], [references[row] for row in rows])
            details["by_group"] = by_group(groups, own)
        return details

    # -------------------------------------------------------------------------------------------------------------- answers

    def predict(self, model: Model, state: State, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Answers; the options are those of `GenerateOptions`, by default the task's."""
        reading, writing = pair_tokenizers(tokenizers)
        texts = [self.source_of(state, example) for example in as_examples(inputs, self.reads)]
        ids = Ragged.of(self.read_ids(reading, texts, self.limits(model.config)[0]))
        room = self._most(int(ids.lengths.max(initial=1)))
        own = self._limits | (self._search if not options.get("temperature") else {})
        chosen = generate_options({"max_tokens": room} | own | options)
        found: list[Prediction] = []
        for start in range(0, len(texts), 64):
            rows = range(start, min(start + 64, len(texts)))
            source = ids.input(rows, packed=False, pad=reading.pad)
            prompts = [self.start(writing)] * len(rows)
            written = generate(model, prompts, chosen, source=source, stop_tokens=writing.ends, decode=writing.decode)
            found += [Prediction(texts[row], answer.text or "") for row, answer in zip(rows, written, strict=True)]
        return found

    def examples(self, prepared: Prepared[State, Pairs], count: int = 3) -> list[Example]:
        """Test sources of a dozen tokens, spread over the split: maps of long ones are unreadable."""
        test = prepared.test
        handy = np.sort(np.argsort(np.abs(test.source.lengths - 12), kind="stable")[: 20 * count])
        rows = handy[pick_evenly(len(handy), count)]
        return [{self.reads: test.sources[row]} for row in rows.tolist()]

    def maps(self, model: Model, state: State, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """The weights while the model reads a source and writes its own answer (or the `target` that is given)."""
        reading, writing = pair_tokenizers(tokenizers)
        limits = self.limits(model.config)
        found = []
        for example in as_examples(inputs, self.reads):
            source = self.source_of(state, example)
            target = example.get("target") or self.predict(model, state, tokenizers, [example])[0].output
            x, y = self.read_ids(reading, [source], limits[0]), self.written_ids(writing, [target], limits[1])
            table = Table("input", {}, ["input"], np.array([[0, 1]]))
            pair = Pairs(table, Ragged.of(x), Ragged.of(y), (reading, writing), [source], [target])
            written = readable_tokens(writing, y[0])
            title = map_title(source, quote(target))
            read = readable_tokens(reading, x[0])
            found += attention_maps(model, pair.batch([0]), written[:-1], source=read, writes=written[1:], title=title)
        return found

    # ------------------------------------------------------------------------------------------------------------- encoding

    def start(self, tokenizer: Tokenizer) -> list[int]:
        """Token ids that an answer starts with."""
        return [tokenizer.id_of(token) for token in self.config.start] or [tokenizer.bos]

    def read_ids(self, tokenizer: Tokenizer, texts: Sequence[str], max_len: int | None = None) -> list[NDArray[np.int32]]:
        """Sources: x [EOS]."""
        return tokenizer.ids_batch(texts, wrap="cls" if self.config.start else "eos", max_len=max_len)

    def written_ids(self, tokenizer: Tokenizer, texts: Sequence[str], max_len: int | None = None) -> list[NDArray[np.int32]]:
        """Targets: [BOS] y [EOS]. The first of several tokens in `start` is the decoder's own; the others stand in the frame."""
        if not self.config.start:
            return tokenizer.ids_batch(texts, wrap="bos-eos", max_len=max_len)
        first = np.array(self.start(tokenizer)[:1], dtype=np.int32)
        return [np.concatenate([first, ids]) for ids in tokenizer.ids_batch(texts, max_len=max_len and max_len - 1)]

    def _most(self, source: int) -> int:
        """Maximum tokens of an answer to a source of this length."""
        return self.config.max_tokens or self.room(source)

    @property
    def _limits(self) -> dict[str, Any]:
        return self.config.limits.model_dump(exclude_defaults=True)

    @property
    def _search(self) -> dict[str, Any]:
        config = self.config
        return {"beams": config.beams, "length_penalty": config.length_penalty, "early_stopping": config.early_stopping}

    def _encode(self, table: Table, tokenizers: tuple[Tokenizer, Tokenizer], model: ModelConfig, notes: list[str]) -> Pairs:
        """The rows in tokens. Long pairs are dropped from train, and truncated in the splits that are scored."""
        limits = self.limits(model)
        texts = (self.sources(table), self.references(table))
        encode = lambda side, max_len=None: (self.read_ids, self.written_ids)[side](tokenizers[side], texts[side], max_len)
        ids = [encode(0), encode(1)]
        long = [np.array([len(own) > limit for own in side]) for side, limit in zip(ids, limits, strict=True)]
        if self.cuts_sources and long[0].any():
            notes.append(
                f"{table.name}: {format_count(int(long[0].sum()), 'text')} of {len(table):,} cut to {limits[0]} tokens (task.max_len)"
            )
            ids[0], long[0] = encode(0, limits[0]), np.zeros(len(table), dtype=bool)
        apart = long[0] | long[1]
        kept = np.arange(len(table))
        if apart.any():
            most = limits[1] if self.cuts_sources else min(limits)
            what = f"{table.name}: {format_count(int(apart.sum()), 'pair')} of {len(table):,} longer than {most} tokens ({self.limited_by})"
            if table.name != "train":
                notes.append(f"{what} cut")
                ids = [encode(0, limits[0]), encode(1, limits[1])]
            elif apart.all():
                raise DataError(f"every pair has more than {most} tokens on a side: raise {self.limited_by}", file=table.files[0])
            else:
                notes.append(f"{what} left out")
                kept = np.flatnonzero(~apart)
        rows = table if len(kept) == len(table) else table.take(kept)
        left, right = (Ragged.of([side[row] for row in kept]) for side in ids)
        return Pairs(rows, left, right, tokenizers, self.sources(rows), self.references(rows))


def check_reads_and_writes(model: ModelConfig, kind: str) -> None:
    """Refuse a model without an encoder and a causal decoder."""
    if model.encoder is None or model.decoder is None:
        raise ConfigError(f"model: {kind} needs an encoder and a decoder; use for example transformer-tiny")
    built = build_meta(model)
    if not built.caps.causal:
        raise ConfigError(f"model.decoder: {kind} writes one token after the other, and this decoder would see those to come")


def pair_tokenizers(tokenizers: Tokenizers) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, which may be the same."""
    return tokenizers["tokenizer"], tokenizers.get("target", tokenizers["tokenizer"])


def token_scores(model: Model, dataset: Pairs, options: EvalOptions) -> dict[str, float]:
    """Loss and accuracy of the next token after the reference's own beginning."""
    with eval_mode(model):
        nats, right, count = map(sum, zip(*(found for _, found in map_batches(_batch_scores, model, dataset, options)), strict=True))
    loss = nats / count
    return {"loss": loss, "perplexity": perplexity(loss), "token_accuracy": right / count}


def _batch_scores(model: Model, _: Pairs, batch: Batch) -> tuple[float, int, int]:
    logits, labels = scored_logits(model, batch)[:2]
    nats = float(F.cross_entropy(logits, labels, reduction="sum"))
    return nats, int((logits.argmax(-1) == labels).sum()), len(labels)


def _right(written: Sequence[str], references: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([exactly(a, b) for a, b in zip(written, references, strict=True)])
