"""Extractive question answering: where in a passage the answer stands, or that it is not there (Rajpurkar et al. 2016, 2018).

The model reads [CLS] question [SEP] passage [SEP] and scores every place as the answer's first and its last token; [CLS] stands for "not
here". A passage that is too long is read in windows that overlap by `stride` tokens: an answer cut by a window's border is "not here" in
that window, and whole in another. Of all windows the span with the best s_first + s_last is the answer, unless "not here" is better in
each of them (Devlin et al. 2019). With `match` the model also reads, beside each token, whether question and passage both have it: that a
name of the question is to be looked up in the passage is what a small model does not discover from a few thousand questions.

    loss = - ½ [log softmax(s_first)(a) + log softmax(s_last)(b)]     over the places of the window that may be answers, and [CLS]
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import ANSWER, DataConfig, Table, load_rows, load_table
from attentif.data.readers import suffix_of
from attentif.data.squad import Question, parse_answers, read_squad, squad_rows, write_answers
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.heads.span import SpanHeadConfig
from attentif.nn.seq import unpack
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import build_meta, check_one_stack, format_count, longest_row, map_batches, min_limit, pick_evenly, say_all
from attentif.tasks.details import SpanAnswer
from attentif.tasks.metrics import by_group, by_length
from attentif.tasks.narrow import labels_of
from attentif.tasks.question_answering.report import AnswerDetails, ShownAnswer, Silence, answer_baselines, answer_sections
from attentif.tasks.question_answering.spans import Span, Window, best_spans, cut_windows
from attentif.tasks.ragged import Ragged, Rows
from attentif.tasks.report import NOTHING
from attentif.tasks.rows import EncodedRows
from attentif.tasks.text_metrics import Language, answer_f1, answer_scores, bootstrap_mean, exact_match
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section

SHOWN = 8  # answers, and errors, in the report


@TASKS.register
class AnswerConfig(TaskConfig):
    """Where in a passage the answer to a question stands."""

    kind: Literal["answer"] = Field("answer", description="extractive question answering: a span of a passage")
    max_len: int = Field(256, gt=8, description="tokens of a window: [CLS] question [SEP] a part of the passage [SEP]")
    stride: int = Field(64, gt=0, description="overlap of two windows, in tokens of the passage")
    max_question: int = Field(64, gt=0, description="maximum tokens of a question; longer ones are truncated")
    max_answer: int = Field(32, gt=0, description="maximum tokens of an answer")
    language: Language = Field("fr", description="language whose articles are ignored when answers are compared: fr, en")
    impossible: bool | None = Field(None, description='allow "no answer"; by default if the data have such questions')
    threshold: float = Field(0.0, description="margin by which the score of `no answer` must exceed that of the best span")

    match: bool = Field(False, description="feature of each token: whether it occurs in both question and passage (Chen et al. 2017)")

    def build(self) -> "Answer":
        return Answer(self)


@dataclass(frozen=True)
class AnswerState(TaskState):
    """Whether the model may say that there is no answer."""

    impossible: bool = False


@dataclass(frozen=True, kw_only=True)
class QuestionWindows(EncodedRows):
    """One split, a window a row: a question of the table may have several."""

    windows: list[Window]
    shared: Ragged | None  # what a model reads beside each token, if so: 1 for one that question and passage have both

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = self.ids.input(chosen, packed=packed, pad=self.tokenizer.pad)
        own = [self.windows[row] for row in chosen.tolist()]
        asked, starts = torch.tensor([[window.asked, window.begin] for window in own]).T
        by_token = lambda places: places[source.seq.row] if packed else places[:, None]
        in_passage = source.seq.pos >= by_token(starts)
        seq = replace(source.seq, marks=(source.seq.pos < by_token(asked)) & source.seq.valid)  # a question sees all of its passage
        labels = torch.tensor([[window.first, window.last] for window in own])
        beside = None if self.shared is None else Input(self.shared.values(chosen, packed=packed, fill=0)[..., None].float(), seq)
        return Batch(Input(source.data, seq, in_passage.long(), beside), labels=labels, rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        return self.table.place(self.windows[row].example)

    @property
    def references(self) -> list[list[str]]:
        return [[answer.text for answer in parse_answers(text)] for text in self.table["answers"]]


class Answer(Task[AnswerState, QuestionWindows]):
    config: AnswerConfig
    state_type = AnswerState
    offers = ("answer",)
    metric = "answer_f1"
    reads = "question"
    scores_by_batch = True

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, SpanHeadConfig) else model.with_head(SpanHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "answer")
        room = min_limit(self.config.max_len, model.max_len) - 3 - self.config.max_question
        if room <= self.config.stride:
            raise ConfigError(f"task.stride: {self.config.stride} is not less than the {room} tokens that a window has for the passage")
        if not build_meta(model).caps.bidirectional:
            raise ConfigError("model: answer needs a place to know what follows it, and this model reads from left to right only")
        if self.config.match and not isinstance(model.frontend, TokensConfig):
            raise ConfigError("task.match: is about tokens, and this model reads none")

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: AnswerState | None = None
    ) -> Prepared[AnswerState, QuestionWindows]:
        splits = load_table(data, ANSWER, say, open_rows=squad_rows)
        notes = list(splits.notes)
        tables = (splits.train, splits.valid, splits.test)
        none = [sum(answers == "[]" for answers in table["answers"]) for table in tables]
        impossible = bool(none[0]) if self.config.impossible is None else self.config.impossible
        if none[0] and not impossible:
            raise ConfigError(f"task.impossible: false, but {none[0]:,} training questions have no answer")
        notes.append(f"train: {len(splits.train):,} questions, {none[0]:,} of them without an answer")
        state = state or AnswerState(impossible)
        tokenizer = fit_tokenizer(text, "tokenizer", [*splits.train["question"], *dict.fromkeys(splits.train["context"])], say)
        train, valid, test = (self._encode(table, tokenizer, model, notes) for table in tables)
        say_all(notes, say)
        longest = longest_row(train, valid, test)
        sizes = Sizes(tokenizer.vocab, max_len=longest, frontend={"features": 1} if self.config.match else {})
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: AnswerState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> QuestionWindows:
        table, notes = load_rows(data, ANSWER, say, open_rows=squad_rows)
        encoded = self._encode(table, tokenizers["tokenizer"], model, notes)
        say_all(notes, say)
        return encoded

    def _encode(self, table: Table, tokenizer: Tokenizer, model: ModelConfig, notes: list[str]) -> QuestionWindows:
        config = self.config
        room = min_limit(config.max_len, model.max_len)
        cut = cut_windows(
            tokenizer, table["question"], table["context"], [parse_answers(text) for text in table["answers"]],
            longest=room, stride=config.stride, max_question=config.max_question,
        )  # fmt: skip
        if cut.long_questions:
            notes.append(
                f"{table.name}: {format_count(cut.long_questions, 'question')} cut to {config.max_question} tokens (task.max_question)"
            )
        if cut.several:
            notes.append(f"{table.name}: {format_count(cut.several, 'passage')} of {len(table):,} read in several windows of {room} tokens")
        if cut.lost:
            notes.append(
                f"{table.name}: {format_count(cut.lost, 'answer')} too long for any window: task.stride or task.max_len could be larger"
            )
        shared = Ragged.of(cut.shared) if config.match else None
        return QuestionWindows(table=table, ids=Ragged.of(cut.ids), windows=cut.windows, shared=shared, tokenizer=tokenizer)

    # ------------------------------------------------------------------------------------------------------------- the loop

    def _scores(self, model: Model, batch: Batch) -> Tensor:
        """(B, 2, T): of each place as the answer's first and last token; -inf where no answer can be."""
        logits, seq = model(batch)
        allowed = batch.source.segments
        assert allowed is not None
        if seq.is_packed:
            logits, allowed = unpack(logits, seq), unpack(allowed, seq)
        ends = torch.arange(allowed.shape[1], device=allowed.device) == seq.lengths[:, None] - 1  # the last [SEP]
        possible = allowed.bool() & seq.padded_mask() & ~ends
        possible[:, 0] = True
        return logits.float().masked_fill(~possible[..., None], float("-inf")).transpose(1, 2)

    def step(self, model: Model, batch: Batch) -> Loss:
        scores = self._scores(model, batch)
        total = F.cross_entropy(scores.flatten(0, 1), labels_of(batch).flatten(), reduction="sum") / 2
        right = (scores.detach().argmax(-1) == labels_of(batch)).all(1).sum()
        return Loss(total, len(labels_of(batch)), {"exact_match": right})

    def score(self, model: Model, state: AnswerState, dataset: QuestionWindows, options: EvalOptions) -> Evaluation:
        found, loss = self._find_spans(model, dataset, options)
        answers = [self._text(state, span, dataset.table["context"][row]) for row, span in enumerate(found)]
        references = dataset.references
        score = lambda of: np.array([of(a, own, self.config.language) for a, own in zip(answers, references, strict=True)])
        hits, shares = score(exact_match), score(answer_f1)
        scores, intervals = answer_scores(hits, shares, draws=0 if options.quick else 500)
        scores["loss"] = loss
        if options.quick:
            return Evaluation(scores, examples=len(answers), split=dataset.name)
        lengths = np.array([len(context.split()) for context in dataset.table["context"]])

        def show(rows: NDArray[np.int64]) -> list[ShownAnswer]:
            spread = rows[pick_evenly(len(rows), SHOWN)].tolist()
            return [self._entry(dataset, row, found[row], answers[row], references[row]) for row in spread]

        details: AnswerDetails = {
            "by_length": by_length(lengths, lambda rows: (float(shares[rows].mean()), bootstrap_mean(shares[rows], 200))),
            "impossible": self._impossible(answers, references),
            "right": show(np.flatnonzero(hits == 1)),
            "wrong": show(np.flatnonzero(hits < 1)),
        }
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(
                groups, lambda rows: {"exact_match": float(hits[rows].mean()), "answer_f1": float(shares[rows].mean())}
            )
        return Evaluation(scores, intervals, len(answers), details, dataset.name)

    def _entry(self, dataset: QuestionWindows, row: int, span: Span, answer: str, references: list[str]) -> ShownAnswer:
        return {
            "question": dataset.table["question"][row],
            "context": dataset.table["context"][row],
            "answer": answer,
            "references": references,
            "span": [span.start, span.end] if answer else [0, 0],
            "probability": span.probability if answer else span.silence,
            "place": dataset.table.place(row),
        }

    @staticmethod
    def _impossible(answers: list[str], references: list[list[str]]) -> Silence:
        counts = Counter((bool(own), bool(answer)) for answer, own in zip(answers, references, strict=True))
        return {
            "answered": counts[True, True],
            "silent": counts[True, False],
            "made_up": counts[False, True],
            "rightly_silent": counts[False, False],
        }

    def _find_spans(self, model: Model, dataset: QuestionWindows, options: EvalOptions) -> tuple[list[Span], float]:
        """The best span of each question over its windows, and the mean loss of a window."""
        best: list[Span | None] = [None] * len(dataset.table)
        nats, count = 0.0, 0
        with eval_mode(model):
            for rows, (total, spans) in map_batches(self._batch_spans, model, dataset, options):
                nats, count = nats + total, count + len(rows)
                for row, span in zip(rows, spans, strict=True):
                    window = dataset.windows[row]
                    best[window.example] = window.to_span(span).better_of(best[window.example])
        return [span for span in best if span is not None], nats / count

    def _batch_spans(self, model: Model, _: QuestionWindows, batch: Batch) -> tuple[float, list[Any]]:
        """Summed loss, and the best span of each window."""
        scores = self._scores(model, batch)
        total = 0.0
        if batch.labels is not None:
            total = float(F.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), reduction="sum")) / 2
        return total, list(best_spans(scores, self.config.max_answer))

    def _text(self, state: AnswerState, span: Span, context: str) -> str:
        """The answer in words; nothing where there is none."""
        silent = state.impossible and span.nothing - span.score > self.config.threshold
        return "" if silent else context[span.start : span.end].strip()

    def baselines(self, prepared: Prepared[AnswerState, QuestionWindows], say: Say) -> list[Baseline]:
        test = prepared.test
        return answer_baselines(test.table["question"], test.table["context"], test.references, self.config.language, say)

    # -------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        if suffix_of(file) == ".json":
            return [_check_question(asked, file, line) for line, asked in read_squad(file)]
        raise UsageError("questions and their passages are read from a .json file in SQuAD's form", file=file)

    def predict(
        self, model: Model, state: AnswerState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """The piece of the passage that answers; `details` says where it stands. An empty one: the passage does not say."""
        asked = [parse_question(given) for given in inputs]
        dataset = self._read_inputs(model, tokenizers, asked)
        found, _ = self._find_spans(model, dataset, EvalOptions(budget))
        answers = []
        for example, span in zip(asked, found, strict=True):
            text = self._text(state, span, example["context"])
            place = (
                SpanAnswer(context=example["context"], start=span.start, end=span.end) if text else SpanAnswer(context=example["context"])
            )
            sure = span.probability if text else span.silence
            answers.append(Prediction(example["question"], text, sure, details=place))
        return answers

    def _read_inputs(self, model: Model, tokenizers: Tokenizers, asked: Sequence[Example]) -> QuestionWindows:
        columns = {role: [example[role] for example in asked] for role in ("question", "context")} | {
            "answers": [write_answers([])] * len(asked)
        }
        return self._encode(Table.of_inputs(columns), tokenizers["tokenizer"], model.config, [])

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return answer_sections(evaluation)

    def examples(self, prepared: Prepared[AnswerState, QuestionWindows], count: int = 3) -> list[Example]:
        """Short test passages: maps of long ones are unreadable."""
        test = prepared.test
        order: NDArray[np.int64] = np.argsort(test.lengths, kind="stable")[: 20 * count]
        rows = [test.windows[row].example for row in order[pick_evenly(len(order), count)].tolist()]
        return [{role: test.table[role][row] for role in ("question", "context")} for row in rows]

    def maps(self, model: Model, state: AnswerState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer, asked = tokenizers["tokenizer"], [parse_question(given) for given in inputs]
        found = []
        for example, answer in zip(asked, self.predict(model, state, tokenizers, asked), strict=True):
            dataset = self._read_inputs(model, tokenizers, [example])
            title = map_title(example["question"], answer.output or NOTHING)
            found += attention_maps(model, dataset.batch([0]), readable_tokens(tokenizer, dataset.ids[0]), title=title)
        return found


def _check_question(asked: Question, file: Path, line: int) -> Example:
    example = {"question": asked.question, "context": asked.context}
    if empty := [role for role, text in example.items() if not text.strip()]:
        raise DataError(f"the {empty[0]} is empty: there is nothing to read", file=file, line=line)
    return example


def parse_question(given: str | Example) -> Example:
    """A table with a question and its context, or the same as a JSON object in one text."""
    example: Any = given
    if isinstance(given, str):
        try:
            example = json.loads(given)
        except ValueError:
            example = None
    if not isinstance(example, dict) or not all(
        isinstance(example.get(key), str) and example[key].strip() for key in ("question", "context")
    ):
        raise UsageError('a question comes with its passage: {"question": "...", "context": "..."}, or --file FILE.json in SQuAD\'s form')
    return {key: example[key] for key in ("question", "context")}
