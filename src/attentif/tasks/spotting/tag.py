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
    broken,
    detect_scheme,
    entities,
    joined,
    line_of,
    parts,
    repaired,
    tagged_rows,
    untagged_rows,
)
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig, evaluating
from attentif.models.heads import TokensHeadConfig
from attentif.models.heads.crf import CRFHead, CRFHeadConfig
from attentif.tasks.feed import as_examples, counted, each_batch, fitted, limit_of, on_paper
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.metrics import Interval, by_group, by_length, share
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.rows import EncodedRows
from attentif.tasks.spotting.aligned import aligned, words_of
from attentif.tasks.spotting.tag_baselines import Tagged, tagging_baselines
from attentif.tasks.spotting.tag_report import in_brackets, outcomes, tag_sections
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
from attentif.tasks.text_metrics import entity_counts, entity_f1, entity_intervals, entity_scores
from attentif.tasks.tokens import scored_vectors
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Section

Wrong = dict[int, list[tuple[int, str]]]  # of a row, the places of the tags that break the scheme, and why
SHOWN = 12  # sentences with errors, and sentences without, in the report


@TASKS.register
class TagConfig(TaskConfig):
    """A tag for each word."""

    kind: Literal["tag"] = Field("tag", description="a tag for each word: named entities, parts of speech")
    labels: list[str] = Field([], description="the tags, in the model's order; by default those of the training data")
    scheme: Literal["auto", "none", "IOB1", "IOB2", "BIOES"] = Field(
        "auto", description="how tags write entities: IOB1, IOB2, BIOES, none (tags that are no entities); auto finds out"
    )
    broken: Literal["refuse", "repair", "drop"] = Field(
        "refuse", description="tags that break the scheme: stop, read them as the entity they mean, or leave their sentences out"
    )
    max_len: int = Field(256, gt=2, description="longer sentences are cut to so many tokens; the words beyond are tagged O")

    def build(self) -> "Tag":
        return Tag(self)


@dataclass(frozen=True, kw_only=True)
class TaggedSentences(EncodedRows):
    """One split: [CLS] sentence [SEP], a label on the first token of each word."""

    words: list[list[str]]
    tags: list[list[str]]
    labels: Ragged

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = self.ids.input(chosen, packed=packed, pad=self.tokenizer.pad)
        return Batch(source, labels=self.labels.values(chosen, packed=packed, fill=UNSCORED), rows=tuple(chosen.tolist()))


class Tag(Task):
    config: TagConfig
    offers = ("tag",)
    reads = "text"

    def __init__(self, config: TagConfig) -> None:
        super().__init__(config)
        self._settle(config)

    def _settle(self, config: TagConfig) -> None:
        self.config = config
        self.metric = "accuracy" if config.scheme == "none" else "entity_f1"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """A head of tags at every place, where the preset has another."""
        return model if isinstance(model.head, TokensHeadConfig | CRFHeadConfig) else model.with_head(TokensHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: tag reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")
        on_paper(model)

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_table(data, TAG, say, open_rows=tagged_rows)
        notes = list(splits.notes)
        scheme: Scheme = self.config.scheme if self.config.scheme != "auto" else detect_scheme([parts(t) for t in splits.train["tags"]])
        tables = self._sound((splits.train, splits.valid, splits.test), scheme, notes)
        labels = self.config.labels or _labels(tables[0])
        if len(labels) < 2:
            raise DataError(f"every word has the tag {labels[0]!r}: there is nothing to tell apart", file=tables[0].files[0])
        notes.append(f"scheme: {scheme}; {counted(len(labels), 'tag')}: {', '.join(labels[:20])}{' ...' if labels[20:] else ''}")
        tokenizer = fitted(text, "tokenizer", [" ".join(parts(tokens)) for tokens in tables[0]["tokens"]], say)
        self._settle(self.config.changed(labels=labels, scheme=scheme))
        train, valid, test = (self._encoded(table, tokenizer, model, notes) for table in tables)
        for note in notes:
            say(note)
        longest = max(int(split.lengths.max()) for split in (train, valid, test))
        sizes = Sizes(tokenizer.vocab, classes=len(labels), max_len=longest)
        return Prepared(self.config, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> TaggedSentences:
        table, notes = load_rows(data, TAG, say, open_rows=tagged_rows)
        (sound,) = self._sound([table], self._scheme, notes)
        encoded = self._encoded(sound, tokenizers["tokenizer"], model, notes)
        for note in notes:
            say(note)
        return encoded

    @property
    def _scheme(self) -> Scheme:
        assert self.config.scheme != "auto"  # a run's configuration says which
        return self.config.scheme

    def _sound(self, tables: Sequence[Table], scheme: Scheme, notes: list[str]) -> list[Table]:
        """The tables with tags that keep to the scheme; what breaks it is refused, repaired or left out, as asked, and said."""
        if scheme == "none":
            return list(tables)
        found = [_wrong(table, scheme) for table in tables]
        if self.config.broken == "refuse" and any(found):
            table, wrong = next((table, wrong) for table, wrong in zip(tables, found, strict=True) if wrong)
            row, (place, why) = next((row, places[0]) for row, places in wrong.items())
            file, line = table.files[table.places[row, 0]], int(table.places[row, 1])
            way_out = "task.broken=repair reads such tags as the entity they mean, task.broken=drop leaves their sentences out"
            raise DataError(f"{why} ({_count(*found)} in all); {way_out}", file=file, line=line_of(Path(file), line, place))
        return [self._mended(table, wrong, scheme, notes) for table, wrong in zip(tables, found, strict=True)]

    def _mended(self, table: Table, wrong: Wrong, scheme: Scheme, notes: list[str]) -> Table:
        if wrong:
            notes.append(f"{table.name}: {_count(wrong)} against {scheme} in {counted(len(wrong), 'sentence')}: {DONE[self.config.broken]}")
        if self.config.broken == "drop" and wrong:
            kept = [row for row in range(len(table)) if row not in wrong]
            if not kept:
                raise DataError(f"every sentence has tags that break {scheme}", file=table.files[0])
            return table.take(kept)
        fixed = [joined(repaired(own, scheme) if row in wrong else own) for row, own in enumerate(_tags(table, scheme))]
        return Table(table.name, table.columns | {"tags": fixed}, table.files, table.places)

    def _encoded(self, table: Table, tokenizer: Tokenizer, model: ModelConfig, notes: list[str]) -> TaggedSentences:
        number = {tag: place for place, tag in enumerate(self.config.labels)}
        words, tags = ([parts(text) for text in table[role]] for role in ("tokens", "tags"))
        if new := sorted({tag for own in tags for tag in own} - set(number)):
            count = counted(sum(tag not in number for own in tags for tag in own), "word")
            notes.append(f"{table.name}: {count} with a tag that the model does not know ({', '.join(new[:5])}): they count as errors")
        longest = limit_of(self.config.max_len, model.max_len)
        ids, labels, cut = [], [], 0
        for (own, firsts), sentence in zip(aligned(tokenizer, words, longest), tags, strict=True):
            label = np.full(len(own), UNSCORED, dtype=np.int64)
            label[firsts] = [number.get(tag, 0) for tag in sentence[: len(firsts)]]
            ids.append(own)
            labels.append(label)
            cut += len(firsts) < len(sentence)
        if cut:
            notes.append(f"{table.name}: {counted(cut, 'sentence')} of {len(table):,} cut to {longest} tokens (task.max_len)")
        return TaggedSentences(table=table, words=words, tags=tags, ids=Ragged.of(ids), labels=Ragged.of(labels), tokenizer=tokenizer)

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        x, labels, places, seq = scored_vectors(model, batch)
        scores = model.head(x, seq)
        right = (scores.detach().argmax(-1) == labels).sum()
        if isinstance(model.head, CRFHead):
            e, lengths, cells = by_sentence(scores, seq.row.flatten()[places], seq.batch)
            tags = torch.zeros(e.shape[:2], dtype=torch.long, device=e.device).flatten().index_copy(0, cells, labels).view(e.shape[:2])
            total = -model.head.log_likelihood(e, tags, lengths).sum()
        else:
            total = F.cross_entropy(scores, labels, reduction="sum")
        return Loss(total, len(labels), {"accuracy": right})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, TaggedSentences)
        found, loss = self._found(model, dataset, budget, progress)
        right = np.array([sum(map(str.__eq__, own, answer)) for own, answer in zip(dataset.tags, found, strict=True)])
        sizes = np.array([len(own) for own in dataset.tags])
        accuracy, around = share(int(right.sum()), int(sizes.sum()))
        scores, intervals = {"accuracy": accuracy, "loss": loss}, {"accuracy": around}
        if self.config.scheme != "none":
            scores = entity_scores(dataset.tags, found) | scores
        if quick:
            return Evaluation(scores, examples=len(dataset), split=dataset.name)
        details: dict[str, Any] = {"scheme": self.config.scheme, "labels": self.config.labels}
        counts = entity_counts(dataset.tags, found)
        if self.config.scheme != "none":
            intervals |= entity_intervals(counts)
            wrong = sum(sum(1 for _ in broken(own, self._scheme)) for own in found)
            details |= {"types": outcomes(dataset.tags, found), "broken": wrong, "crf": isinstance(model.head, CRFHead)}

        def some(rows: Ints) -> dict[str, float]:
            entity = {} if self.config.scheme == "none" else entity_f1(counts[rows])
            return entity | {"accuracy": float(right[rows].sum() / sizes[rows].sum())}

        def with_interval(rows: Ints) -> tuple[float, Interval]:
            if self.config.scheme == "none":
                return share(int(right[rows].sum()), int(sizes[rows].sum()))
            return some(rows)["entity_f1"], entity_intervals(counts[rows], 200)["entity_f1"]

        details |= {"by_length_metric": self.metric, "by_length": by_length(sizes, with_interval)}
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, some)
        details |= self._sentences(dataset, found)
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _found(self, model: Model, dataset: TaggedSentences, budget: int, progress: Progress | None) -> tuple[list[list[str]], float]:
        """The tags of every word (O beyond the cut), and the loss of a word."""
        labels = self.config.labels
        found: dict[int, list[str]] = {}
        nats, count = 0.0, 0
        with evaluating(model):
            for batch in each_batch(model, dataset, budget, progress):
                loss = self.step(model, batch)
                nats, count = nats + float(loss.total), count + loss.count
                for row, tags in zip(batch.rows, tagged(model, batch), strict=True):
                    names = [labels[tag] for tag in tags]
                    words = len(dataset.tags[row])
                    found[row] = (names + [OUTSIDE] * words)[:words]
        return [found[row] for row in range(len(dataset))], nats / count

    def _sentences(self, dataset: TaggedSentences, found: list[list[str]]) -> dict[str, Any]:
        """Sentences for the report: some with errors, some without."""
        wrong = [row for row, own in enumerate(dataset.tags) if own != found[row]]
        right = [row for row in range(len(dataset)) if row not in set(wrong) and (self.config.scheme == "none" or entities(found[row]))]
        entry = lambda row: {"words": dataset.words[row], "true": dataset.tags[row], "found": found[row], "place": dataset.place(row)}
        spread = lambda rows: [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, SHOWN).astype(int))] if rows else []
        return {"wrong": [entry(row) for row in spread(wrong)], "right": [entry(row) for row in spread(right)], "wrong_count": len(wrong)}

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, TaggedSentences)
        assert isinstance(test, TaggedSentences)
        return tagging_baselines(
            Tagged(train.words, train.tags), Tagged(test.words, test.tags), entities=self.config.scheme != "none", say=say
        )

    # -------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        """The sentences of a file with tags, which are not looked at; other files hold texts."""
        sentences = None if column else untagged_rows(file)
        return None if sentences is None else [{"tokens": tokens} for tokens in sentences]

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """The sentence with its entities in brackets; `details` has each one's type, text and place, and every word's tag."""
        asked = [self._asked(example) for example in (given if not isinstance(given, str) else {"text": given} for given in inputs)]
        dataset = self._untagged(model, tokenizers["tokenizer"], [[text[a:b] for a, b in spans] for text, spans in asked])
        found, _ = self._found(model, dataset, budget, None)
        answers = []
        for (text, spans), tags in zip(asked, found, strict=True):
            if self.config.scheme == "none":
                output, kept = " ".join(f"{text[a:b]}/{tag}" for (a, b), tag in zip(spans, tags, strict=True)), []
            else:
                places = [(kind, spans[first][0], spans[last][1]) for kind, first, last in entities(tags)]
                output = in_brackets(text, places)
                kept = [{"type": kind, "text": text[a:b], "start": a, "end": b} for kind, a, b in places]
            answers.append(Prediction(text, output, details={"entities": kept, "words": [text[a:b] for a, b in spans], "tags": tags}))
        return answers

    def _asked(self, example: Example) -> tuple[str, list[tuple[int, int]]]:
        """A running text and where its words are; given `tokens` are joined by spaces."""
        given: Any = example.get("tokens")
        if given is None:
            text = as_examples([example], "text")[0]["text"]
            return text, words_of(text)
        words = parts(given) if isinstance(given, str) else list(given)
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        return " ".join(words), [(int(end) - len(word), int(end)) for end, word in zip(ends, words, strict=True)]

    def _untagged(self, model: Model, tokenizer: Tokenizer, words: list[list[str]]) -> TaggedSentences:
        """New sentences as a split; their words are all of the first tag. One without a word is given an empty one, not to be lost."""
        columns = {
            "tokens": [joined(own or [""]) for own in words],
            "tags": [joined(self.config.labels[:1] * max(len(own), 1)) for own in words],
        }
        places = np.stack([np.zeros(len(words), np.int64), np.arange(1, len(words) + 1)], axis=1)
        dataset = self._encoded(Table("input", columns, ["input"], places), tokenizer, model.config, [])
        return replace(dataset, words=words, tags=[self.config.labels[:1] * len(own) for own in words])

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return tag_sections(evaluation)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        test = prepared.test
        assert isinstance(test, TaggedSentences)
        handy = np.argsort(np.abs(test.lengths - 16), kind="stable")[:count]
        return [{"tokens": joined(test.words[row])} for row in handy.tolist()]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer = tokenizers["tokenizer"]
        found = []
        for given, answer in zip(inputs, self.predict(model, tokenizers, inputs), strict=True):
            text, spans = self._asked(given if not isinstance(given, str) else {"text": given})
            sentence = self._untagged(model, tokenizer, [[text[a:b] for a, b in spans]])
            found += attention_maps(model, sentence.batch([0]), shown_tokens(tokenizer, sentence.ids[0]), title=answer.output)
        return found


DONE = {"repair": "repaired (task.broken)", "drop": "left out (task.broken)"}


def by_sentence(scores: Tensor, rows: Tensor, sentences: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of words end to end (n, C) as (B, W, C); how many words each sentence has; the place of each among the B · W."""
    lengths = torch.bincount(rows, minlength=sentences)
    begins = lengths.cumsum(0) - lengths
    width = int(lengths.max())
    cells = rows * width + torch.arange(len(rows), device=rows.device) - begins[rows]
    padded = scores.new_zeros(sentences * width, scores.shape[-1]).index_copy(0, cells, scores)
    return padded.view(sentences, width, -1), lengths, cells


def tagged(model: Model, batch: Batch) -> list[list[int]]:
    """The number of the tag of each word, sentence by sentence."""
    x, _, places, seq = scored_vectors(model, batch)
    scores, rows = model.head(x, seq), seq.row.flatten()[places]
    e, lengths, _ = by_sentence(scores, rows, seq.batch)
    best = model.head.best(e, lengths) if isinstance(model.head, CRFHead) else e.argmax(-1)
    return [own[:length] for own, length in zip(best.tolist(), lengths.tolist(), strict=True)]


def _labels(train: Table) -> list[str]:
    """O first, then the others in order."""
    known = {tag for text in train["tags"] for tag in parts(text)}
    return [OUTSIDE] * (OUTSIDE in known) + sorted(known - {OUTSIDE}, key=lambda tag: (tag.partition("-")[2], tag))


def _tags(table: Table, scheme: Scheme) -> list[list[str]]:
    return [bioes(parts(text)) if scheme == "BIOES" else parts(text) for text in table["tags"]]


def _wrong(table: Table, scheme: Scheme) -> Wrong:
    return {row: found for row, own in enumerate(_tags(table, scheme)) if (found := list(broken(own, scheme)))}


def _count(*wrong: Wrong) -> str:
    return counted(sum(len(places) for own in wrong for places in own.values()), "tag")
