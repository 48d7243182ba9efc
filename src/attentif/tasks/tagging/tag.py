"""Tagging: a tag for each word of a sentence. Named entities (BIO schemes), or any tags (parts of speech).

The label stands on a word's first token, the others are not scored (`aligned`). With `model.head.kind = "crf"` the tags of a sentence are
scored together (`models/heads/crf.py`), else each by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.data import TAG, DataConfig, Table, load_rows, load_table
from attentif.data.conll import (
    OUTSIDE,
    Scheme,
    bioes,
    decode_list,
    detect_scheme,
    encode_list,
    find_broken,
    find_entities,
    line_of,
    read_tagged_rows,
    read_untagged_rows,
    repair_tags,
)
from attentif.errors import DataError
from attentif.models import Batch, Model, ModelConfig, eval_mode
from attentif.models.heads import TokensHeadConfig
from attentif.models.heads.crf import CRFHead, CRFHeadConfig
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, readable_tokens
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import (
    as_examples,
    build_meta,
    check_one_stack,
    format_count,
    longest_row,
    map_batches,
    min_limit,
    pick_evenly,
    say_all,
)
from attentif.tasks.details import TagAnswer, TaggedEntity
from attentif.tasks.metrics import Interval, by_group, by_length, share
from attentif.tasks.ragged import UNSCORED, Ints, Ragged
from attentif.tasks.rows import LabelledTokens
from attentif.tasks.tagging.baselines import Tagged, tagging_baselines
from attentif.tasks.tagging.report import TagDetails, TaggedExample, in_brackets, outcomes, tag_sections
from attentif.tasks.tagging.word_tokens import encode_words, find_words
from attentif.tasks.text_metrics import entity_counts, entity_f1, entity_intervals
from attentif.tasks.token_loss import scored_vectors
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section

Wrong = dict[int, list[tuple[int, str]]]  # of a row, the places of the tags that break the scheme, and why
SHOWN = 12  # sentences with errors, and sentences without, in the report


@TASKS.register
class TagConfig(TaskConfig):
    """A tag for each word."""

    kind: Literal["tag"] = Field("tag", description="token classification: named entities, parts of speech")
    labels: list[str] = Field([], description="tags in the order of the logits; by default those of the training data")
    scheme: Literal["auto", "none", "IOB1", "IOB2", "BIOES"] = Field(
        "auto", description="tagging scheme of entities: IOB1, IOB2, BIOES, none (no entities), auto (detected)"
    )
    broken: Literal["refuse", "repair", "drop"] = Field(
        "refuse", description="tags that violate the scheme: refuse them, repair them, or drop their sentences"
    )
    max_len: int = Field(256, gt=2, description="maximum tokens of a sentence; words beyond are tagged O")

    def build(self) -> "Tag":
        return Tag(self)


@dataclass(frozen=True, kw_only=True)
class TaggedSentences(LabelledTokens):
    """One split: [CLS] sentence [SEP], a label on the first token of each word."""

    words: list[list[str]]
    tags: list[list[str]]


@dataclass(frozen=True)
class TagState(TaskState):
    """The tags in the model's order, and how they write entities."""

    labels: tuple[str, ...] = ()
    scheme: Scheme = "none"


class Tag(Task[TagState, TaggedSentences]):
    config: TagConfig
    state_type = TagState
    offers = ("tag",)
    reads = "text"
    metric = "entity_f1"
    scores_by_batch = True

    def metric_for(self, state: TagState) -> str:
        return "accuracy" if state.scheme == "none" else "entity_f1"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """A head of tags at every place, where the preset has another."""
        return model if isinstance(model.head, TokensHeadConfig | CRFHeadConfig) else model.with_head(TokensHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "tag")
        build_meta(model)

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TagState | None = None
    ) -> Prepared[TagState, TaggedSentences]:
        splits = load_table(data, TAG, say, open_rows=read_tagged_rows)
        notes = list(splits.notes)
        scheme: Scheme = (
            state.scheme
            if state is not None
            else self.config.scheme
            if self.config.scheme != "auto"
            else detect_scheme([decode_list(t) for t in splits.train["tags"]])
        )
        tables = self._check_tags((splits.train, splits.valid, splits.test), scheme, notes)
        labels = state.labels if state is not None else tuple(self.config.labels or _labels(tables[0]))
        if len(labels) < 2:
            raise DataError(f"every word has the tag {labels[0]!r}: there is nothing to tell apart", file=tables[0].files[0])
        notes.append(f"scheme: {scheme}; {format_count(len(labels), 'tag')}: {', '.join(labels[:20])}{' ...' if labels[20:] else ''}")
        tokenizer = fit_tokenizer(text, "tokenizer", [" ".join(decode_list(tokens)) for tokens in tables[0]["tokens"]], say)
        state = TagState(labels, scheme)
        train, valid, test = (self._encode(state, table, tokenizer, model, notes) for table in tables)
        say_all(notes, say)
        longest = longest_row(train, valid, test)
        sizes = Sizes(tokenizer.vocab, classes=len(labels), max_len=longest)
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: TagState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> TaggedSentences:
        table, notes = load_rows(data, TAG, say, open_rows=read_tagged_rows)
        (sound,) = self._check_tags([table], state.scheme, notes)
        encoded = self._encode(state, sound, tokenizers["tokenizer"], model, notes)
        say_all(notes, say)
        return encoded

    def _check_tags(self, tables: Sequence[Table], scheme: Scheme, notes: list[str]) -> list[Table]:
        """The tables with tags that keep to the scheme; what breaks it is refused, repaired or left out, as asked, and said."""
        if scheme == "none":
            return list(tables)
        found = [_find_broken(table, scheme) for table in tables]
        if self.config.broken == "refuse" and any(found):
            table, wrong = next((table, wrong) for table, wrong in zip(tables, found, strict=True) if wrong)
            row, (place, why) = next((row, places[0]) for row, places in wrong.items())
            file, line = table.files[table.places[row, 0]], int(table.places[row, 1])
            way_out = "task.broken=repair reads such tags as the entity they mean, task.broken=drop leaves their sentences out"
            raise DataError(f"{why} ({_count(*found)} in all); {way_out}", file=file, line=line_of(Path(file), line, place))
        return [self._repair(table, wrong, scheme, notes) for table, wrong in zip(tables, found, strict=True)]

    def _repair(self, table: Table, wrong: Wrong, scheme: Scheme, notes: list[str]) -> Table:
        if wrong:
            notes.append(
                f"{table.name}: {_count(wrong)} against {scheme} in {format_count(len(wrong), 'sentence')}: {DONE[self.config.broken]}"
            )
        if self.config.broken == "drop" and wrong:
            kept = [row for row in range(len(table)) if row not in wrong]
            if not kept:
                raise DataError(f"every sentence has tags that break {scheme}", file=table.files[0])
            return table.take(kept)
        fixed = [encode_list(repair_tags(own, scheme) if row in wrong else own) for row, own in enumerate(_tags(table, scheme))]
        return Table(table.name, table.columns | {"tags": fixed}, table.files, table.places)

    def _encode(self, state: TagState, table: Table, tokenizer: Tokenizer, model: ModelConfig, notes: list[str]) -> TaggedSentences:
        number = {tag: place for place, tag in enumerate(state.labels)}
        words, tags = ([decode_list(text) for text in table[role]] for role in ("tokens", "tags"))
        if new := sorted({tag for own in tags for tag in own} - set(number)):
            count = format_count(sum(tag not in number for own in tags for tag in own), "word")
            notes.append(f"{table.name}: {count} with a tag that the model does not know ({', '.join(new[:5])}): they count as errors")
        longest = min_limit(self.config.max_len, model.max_len)
        ids, labels, cut = [], [], 0
        for (own, firsts), sentence in zip(encode_words(tokenizer, words, longest), tags, strict=True):
            label = np.full(len(own), UNSCORED, dtype=np.int64)
            label[firsts] = [number.get(tag, 0) for tag in sentence[: len(firsts)]]
            ids.append(own)
            labels.append(label)
            cut += len(firsts) < len(sentence)
        if cut:
            notes.append(f"{table.name}: {format_count(cut, 'sentence')} of {len(table):,} cut to {longest} tokens (task.max_len)")
        return TaggedSentences(table=table, words=words, tags=tags, ids=Ragged.of(ids), labels=Ragged.of(labels), tokenizer=tokenizer)

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        x, labels, places, seq = scored_vectors(model, batch)
        scores = model.head(x, seq)
        right = (scores.detach().argmax(-1) == labels).sum()
        if isinstance(model.head, CRFHead):
            e, lengths, cells = pad_by_sentence(scores, seq.row.flatten()[places], seq.batch)
            tags = torch.zeros(e.shape[:2], dtype=torch.long, device=e.device).flatten().index_copy(0, cells, labels).view(e.shape[:2])
            total = -model.head.log_likelihood(e, tags, lengths).sum()
        else:
            total = F.cross_entropy(scores, labels, reduction="sum")
        return Loss(total, len(labels), {"accuracy": right})

    def score(self, model: Model, state: TagState, dataset: TaggedSentences, options: EvalOptions) -> Evaluation:
        found, loss = self._tag_rows(model, state, dataset, options)
        right = np.array([sum(map(str.__eq__, own, answer)) for own, answer in zip(dataset.tags, found, strict=True)])
        sizes = np.array([len(own) for own in dataset.tags])
        accuracy, around = share(int(right.sum()), int(sizes.sum()))
        scores, intervals = {"accuracy": accuracy, "loss": loss}, {"accuracy": around}
        if state.scheme != "none":
            scores = entity_f1(entity_counts(dataset.tags, found)) | scores
        if options.quick:
            return Evaluation(scores, examples=len(dataset), split=dataset.name)
        counts = entity_counts(dataset.tags, found)
        if state.scheme != "none":
            intervals |= entity_intervals(counts)

        def some(rows: Ints) -> dict[str, float]:
            entity = {} if state.scheme == "none" else entity_f1(counts[rows])
            return entity | {"accuracy": float(right[rows].sum() / sizes[rows].sum())}

        def with_interval(rows: Ints) -> tuple[float, Interval]:
            if state.scheme == "none":
                return share(int(right[rows].sum()), int(sizes[rows].sum()))
            return some(rows)["entity_f1"], entity_intervals(counts[rows], 200)["entity_f1"]

        wrong, correct = self._sort_sentences(state, dataset, found)
        details: TagDetails = {
            "scheme": state.scheme,
            "labels": list(state.labels),
            "by_length_metric": self.metric_for(state),
            "by_length": by_length(sizes, with_interval),
            "wrong": self._show(dataset, found, wrong),
            "right": self._show(dataset, found, correct),
            "wrong_count": len(wrong),
        }
        if state.scheme != "none":
            broken = sum(sum(1 for _ in find_broken(own, state.scheme)) for own in found)
            details["entities"] = {"types": outcomes(dataset.tags, found), "broken": broken, "crf": isinstance(model.head, CRFHead)}
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, some)
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _tag_rows(self, model: Model, state: TagState, dataset: TaggedSentences, options: EvalOptions) -> tuple[list[list[str]], float]:
        """The tags of every word (O beyond the cut), and the loss of a word."""
        labels = state.labels
        found: dict[int, list[str]] = {}
        nats, count = 0.0, 0
        with eval_mode(model):
            for rows, (total, asked, answers) in map_batches(self._tag_batch, model, dataset, options):
                nats, count = nats + total, count + asked
                for row, tags in zip(rows, answers, strict=True):
                    names = [labels[tag] for tag in tags]
                    words = len(dataset.tags[row])
                    found[row] = (names + [OUTSIDE] * words)[:words]
        return [found[row] for row in range(len(dataset))], nats / count

    def _tag_batch(self, model: Model, _: TaggedSentences, batch: Batch) -> tuple[float, int, list[list[int]]]:
        loss = self.step(model, batch)
        return float(loss.total), loss.count, predict_tags(model, batch)

    def _sort_sentences(self, state: TagState, dataset: TaggedSentences, found: list[list[str]]) -> tuple[list[int], list[int]]:
        """Rows with errors; rows without, that have an entity."""
        wrong = [row for row, own in enumerate(dataset.tags) if own != found[row]]
        right = sorted({*range(len(dataset))} - {*wrong})
        return wrong, [row for row in right if state.scheme == "none" or find_entities(found[row])]

    def _show(self, dataset: TaggedSentences, found: list[list[str]], rows: list[int]) -> list[TaggedExample]:
        """Some rows for the report, evenly spaced."""
        return [
            {"words": dataset.words[row], "true": dataset.tags[row], "found": found[row], "place": dataset.place(row)}
            for row in (rows[place] for place in pick_evenly(len(rows), SHOWN))
        ]

    def baselines(self, prepared: Prepared[TagState, TaggedSentences], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return tagging_baselines(
            Tagged(train.words, train.tags), Tagged(test.words, test.tags), entities=prepared.state.scheme != "none", say=say
        )

    # -------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        """The sentences of a file with tags, which are not looked at; other files hold texts."""
        sentences = None if column else read_untagged_rows(file)
        return None if sentences is None else [{"tokens": tokens} for tokens in sentences]

    def predict(
        self, model: Model, state: TagState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """The sentence with its entities in brackets; `details` has each one's type, text and place, and every word's tag."""
        asked = [self._split_words(example) for example in (given if not isinstance(given, str) else {"text": given} for given in inputs)]
        dataset = self._encode_inputs(model, state, tokenizers["tokenizer"], [[text[a:b] for a, b in spans] for text, spans in asked])
        found, _ = self._tag_rows(model, state, dataset, EvalOptions(budget))
        answers = []
        for (text, spans), tags in zip(asked, found, strict=True):
            if state.scheme == "none":
                output, kept = " ".join(f"{text[a:b]}/{tag}" for (a, b), tag in zip(spans, tags, strict=True)), []
            else:
                places = [(kind, spans[first][0], spans[last][1]) for kind, first, last in find_entities(tags)]
                output = in_brackets(text, places)
                kept = [TaggedEntity(type=kind, text=text[a:b], start=a, end=b) for kind, a, b in places]
            answers.append(Prediction(text, output, details=TagAnswer(entities=kept, words=[text[a:b] for a, b in spans], tags=tags)))
        return answers

    def _split_words(self, example: Example) -> tuple[str, list[tuple[int, int]]]:
        """A running text and where its words are; given `tokens` are joined by spaces."""
        given: Any = example.get("tokens")
        if given is None:
            text = as_examples([example], "text")[0]["text"]
            return text, find_words(text)
        words = decode_list(given) if isinstance(given, str) else list(given)
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        return " ".join(words), [(int(end) - len(word), int(end)) for end, word in zip(ends, words, strict=True)]

    def _encode_inputs(self, model: Model, state: TagState, tokenizer: Tokenizer, words: list[list[str]]) -> TaggedSentences:
        """New sentences as a split; their words are all of the first tag. One without a word is given an empty one, not to be lost."""
        columns = {
            "tokens": [encode_list(own or [""]) for own in words],
            "tags": [encode_list([state.labels[0]] * max(len(own), 1)) for own in words],
        }
        dataset = self._encode(state, Table.of_inputs(columns), tokenizer, model.config, [])
        return replace(dataset, words=words, tags=[[state.labels[0]] * len(own) for own in words])

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return tag_sections(evaluation)

    def examples(self, prepared: Prepared[TagState, TaggedSentences], count: int = 3) -> list[Example]:
        test = prepared.test
        handy = np.argsort(np.abs(test.lengths - 16), kind="stable")[:count]
        return [{"tokens": encode_list(test.words[row])} for row in handy.tolist()]

    def maps(self, model: Model, state: TagState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer = tokenizers["tokenizer"]
        found = []
        for given, answer in zip(inputs, self.predict(model, state, tokenizers, inputs), strict=True):
            text, spans = self._split_words(given if not isinstance(given, str) else {"text": given})
            sentence = self._encode_inputs(model, state, tokenizer, [[text[a:b] for a, b in spans]])
            found += attention_maps(model, sentence.batch([0]), readable_tokens(tokenizer, sentence.ids[0]), title=answer.output)
        return found


DONE = {"repair": "repaired (task.broken)", "drop": "left out (task.broken)"}


def pad_by_sentence(scores: Tensor, rows: Tensor, sentences: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of words end to end (n, C) as (B, W, C); how many words each sentence has; the place of each among the B · W."""
    lengths = torch.bincount(rows, minlength=sentences)
    begins = lengths.cumsum(0) - lengths
    width = int(lengths.max())
    cells = rows * width + torch.arange(len(rows), device=rows.device) - begins[rows]
    padded = scores.new_zeros(sentences * width, scores.shape[-1]).index_copy(0, cells, scores)
    return padded.view(sentences, width, -1), lengths, cells


def predict_tags(model: Model, batch: Batch) -> list[list[int]]:
    """The number of the tag of each word, sentence by sentence."""
    x, _, places, seq = scored_vectors(model, batch)
    scores, rows = model.head(x, seq), seq.row.flatten()[places]
    e, lengths, _ = pad_by_sentence(scores, rows, seq.batch)
    best = model.head.best(e, lengths) if isinstance(model.head, CRFHead) else e.argmax(-1)
    return [own[:length] for own, length in zip(best.tolist(), lengths.tolist(), strict=True)]


def _labels(train: Table) -> list[str]:
    """O first, then the others in order."""
    known = {tag for text in train["tags"] for tag in decode_list(text)}
    return [OUTSIDE] * (OUTSIDE in known) + sorted(known - {OUTSIDE}, key=lambda tag: (tag.partition("-")[2], tag))


def _tags(table: Table, scheme: Scheme) -> list[list[str]]:
    return [bioes(decode_list(text)) if scheme == "BIOES" else decode_list(text) for text in table["tags"]]


def _find_broken(table: Table, scheme: Scheme) -> Wrong:
    return {row: found for row, own in enumerate(_tags(table, scheme)) if (found := list(find_broken(own, scheme)))}


def _count(*wrong: Wrong) -> str:
    return format_count(sum(len(places) for own in wrong for places in own.values()), "tag")
