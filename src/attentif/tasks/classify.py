"""Classification: a label for a text, or for a pair of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import CLASSIFY, DataConfig, Table, load_rows, load_table
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Input, Model, ModelConfig, evaluating
from attentif.models.heads import ClassifyHeadConfig, LanguageHeadConfig, TokensHeadConfig
from attentif.tasks.baselines import Labelled, classification_baselines
from attentif.tasks.feed import as_examples, counted, each_batch, fitted, limit_of, on_paper
from attentif.tasks.looking import attention_maps, influence, running_text, shown_tokens
from attentif.tasks.metrics import accuracy, by_group, by_length, classification_scores, confusion, macro_f1, share_of
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.tasks.report import classify_sections
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
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Section

WORST = 12  # errors shown in the report


@TASKS.register
class ClassifyConfig(TaskConfig):
    """A label for a text, or for a pair of texts."""

    kind: Literal["classify"] = Field("classify", description="a label for a text, or for a pair of texts")
    labels: list[str] = Field([], description="the classes, in the model's order; by default those of the training data")
    max_len: int = Field(256, gt=2, description="longer texts are cut to so many tokens")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target given to the other classes")

    def build(self) -> "Classify":
        return Classify(self)


@dataclass(frozen=True)
class LabelledTexts:
    """One split: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP] with segments."""

    table: Table
    ids: Ragged
    labels: Ints
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def lengths(self) -> Ints:
        return self.ids.lengths

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = inputs(self.ids, chosen, self.tokenizer, pairs="pair" in self.table.columns, packed=packed)
        return Batch(source, labels=torch.from_numpy(self.labels[chosen]), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        return self.table.place(row)

    def example(self, row: int) -> Example:
        return {role: self.table[role][row] for role in ("text", "pair") if role in self.table.columns}

    def joined(self) -> list[str]:
        """Each example as one text, for systems that count words."""
        texts = self.table["text"]
        return [f"{a}\n{b}" for a, b in zip(texts, self.table["pair"], strict=True)] if "pair" in self.table.columns else texts


def inputs(ids: Ragged, rows: Rows, tokenizer: Tokenizer, *, pairs: bool, packed: bool = False) -> Input:
    """What the model reads, with segments where there are pairs."""
    source = ids.input(rows, packed=packed, pad=tokenizer.pad)
    if not pairs:
        return source
    separators = source.data == tokenizer.sep
    before = separators.cumsum(-1) - separators.long()  # how many [SEP] stand before each token, of the pack where it is one
    if packed:
        before = before - 2 * source.seq.row
    return Input(source.data, source.seq, before.clamp(0, 1))


class Classify(Task):
    config: ClassifyConfig
    metric = "accuracy"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """A head of classes where the preset has one of tokens: pooled over the text, or at the end where only the end has read it all."""
        if not isinstance(model.head, LanguageHeadConfig | TokensHeadConfig):
            return model
        return model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))

    def check(self, model: ModelConfig) -> None:
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: classify reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")
        built = on_paper(model)
        if isinstance(model.head, ClassifyHeadConfig) and model.head.pool == "first" and built.caps.causal:
            raise ConfigError('model.head.pool: the first token of a causal model has read nothing else; pool = "last" has read it all')

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_table(data, CLASSIFY, say)
        notes = list(splits.notes)
        tables = (splits.train, splits.valid, splits.test)
        roles = [role for role in ("text", "pair") if role in splits.train.columns]
        tokenizer = fitted(text, "tokenizer", [value for role in roles for value in splits.train[role]], say)
        labels = self.config.labels or splits.labels
        longest = limit_of(self.config.max_len, model.max_len)
        train, valid, test = (self._encoded(table, tokenizer, labels, longest, notes) for table in tables)
        for note in notes:
            say(note)
        sizes = Sizes(tokenizer.vocab, classes=len(labels), max_len=max(int(split.lengths.max()) for split in (train, valid, test)))
        task = self.config.changed(labels=labels)
        self.config = task
        return Prepared(task, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledTexts:
        table, notes = load_rows(data, CLASSIFY, say)
        longest = limit_of(self.config.max_len, model.max_len)
        encoded = self._encoded(table, tokenizers["tokenizer"], self.config.labels, longest, notes)
        for note in notes:
            say(note)
        return encoded

    def _encoded(self, table: Table, tokenizer: Tokenizer, labels: list[str], longest: int, notes: list[str]) -> LabelledTexts:
        number = {label: place for place, label in enumerate(labels)}
        for row, label in enumerate(table["label"]):
            if label not in number:
                raise DataError(f"{table.place(row)}: the label {label!r} is none of the model's classes ({', '.join(labels[:10])})")
        texts, pairs = table["text"], table.columns.get("pair")
        ids, cut = encoded(tokenizer, texts, pairs, longest)
        if cut:
            share = 100 * cut / len(table)
            notes.append(f"{table.name}: {counted(cut, 'text')} of {len(table):,} ({share:.1f} %) cut to {longest} tokens (task.max_len)")
        return LabelledTexts(table, Ragged.of(ids), np.array([number[label] for label in table["label"]], dtype=np.int64), tokenizer)

    def step(self, model: Model, batch: Batch) -> Loss:
        logits, _ = model(batch)
        assert batch.labels is not None
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        return Loss(total, len(batch.labels), {"accuracy": right})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, LabelledTexts)
        log_p = log_probabilities(model, dataset, budget, progress)
        true, predicted = dataset.labels, log_p.argmax(1)
        table = confusion(true, predicted, log_p.shape[1])
        loss = -float(log_p[np.arange(len(true)), true].mean())
        if quick:
            scores = {"accuracy": float(accuracy(table)), "f1": float(macro_f1(table)), "loss": loss}
            return Evaluation(scores, examples=len(true), split=dataset.name)
        from attentif.view.figures.classify import reliability

        scores, intervals = classification_scores(table)
        confidence = np.exp(log_p.max(1))
        bins = reliability(confidence, true == predicted)
        details = {
            "labels": self.config.labels,
            "confusion": table.tolist(),
            "calibration": {name: _plain(getattr(bins, name)) for name in ("edges", "counts", "confidence", "accuracy")},
            "by_length": by_length(dataset.lengths, share_of(true == predicted)),
            "worst": self._worst(model, dataset, predicted, confidence),
        }
        if groups := dataset.table.columns.get("group"):
            right = true == predicted
            details["by_group"] = by_group(groups, lambda rows: {"accuracy": float(right[rows].mean())})
        return Evaluation(scores | {"loss": loss, "ece": bins.ece}, intervals, len(true), details, dataset.name)

    def _worst(self, model: Model, dataset: LabelledTexts, predicted: Ints, confidence: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The errors that the model was surest of, with what each token said for the wrong class against the right one."""
        wrong = np.flatnonzero(predicted != dataset.labels)
        rows = wrong[np.argsort(-confidence[wrong], kind="stable")[:WORST]]
        found = []
        for row in rows.tolist():
            true, answer = int(dataset.labels[row]), int(predicted[row])
            example = dataset.example(row)
            encoding = dataset.tokenizer.encode(*example.values(), max_len=len(dataset.ids[row]))
            moved = influence(model, dataset.batch([row]), partial(_margin, answer, true))
            entry = {
                "text": example["text"],
                "true": self.config.labels[true],
                "predicted": self.config.labels[answer],
                "probability": float(confidence[row]),
                "place": dataset.place(row),
                "tokens": running_text(encoding, *example.values()),
                "values": [0.0] * len(encoding) if moved is None else [round(float(v), 4) for v in moved[0]],
            }
            found.append(entry)
        return found

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, LabelledTexts)
        assert isinstance(test, LabelledTexts)
        known, asked = (Labelled(split.joined(), split.labels) for split in (train, test))
        return classification_baselines(known, asked, len(self.config.labels), say)

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """A label for each text (or pair), with the probability of every class."""
        examples = as_examples(inputs, "text")
        source = self._asked(model, tokenizers["tokenizer"], examples)
        p = np.exp(log_probabilities(model, source, budget))
        found = []
        for example, row in zip(examples, p, strict=True):
            order = np.argsort(-row, kind="stable")
            scores = {self.config.labels[c]: float(row[c]) for c in order}
            found.append(Prediction(" / ".join(example.values()), self.config.labels[order[0]], float(row[order[0]]), scores))
        return found

    def _asked(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        """New texts as a split without labels (all of class 0)."""
        roles = ["text", "pair"] if any("pair" in example for example in examples) else ["text"]
        columns = {role: [example.get(role, "") for example in examples] for role in roles}
        places = np.stack([np.zeros(len(examples), np.int64), np.arange(1, len(examples) + 1)], axis=1)
        table = Table("input", columns, ["input"], places)
        ids, _ = encoded(tokenizer, columns["text"], columns.get("pair"), limit_of(self.config.max_len, model.config.max_len))
        return LabelledTexts(table, Ragged.of(ids), np.zeros(len(examples), np.int64), tokenizer)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return classify_sections(evaluation)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Short test texts, one of each class in turn: long ones make maps that nobody can read."""
        test = prepared.test
        assert isinstance(test, LabelledTexts)
        order = np.argsort(np.abs(test.lengths - 16), kind="stable")
        rank = np.zeros(len(order), dtype=np.int64)  # how many of its class come before, in that order
        for c in range(len(self.config.labels)):
            own = test.labels[order] == c
            rank[own] = np.arange(own.sum())
        return [test.example(row) for row in order[np.argsort(rank, kind="stable")][:count].tolist()]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        asked = self._asked(model, tokenizer, examples)
        found = []
        for row, example in enumerate(examples):
            answer = self.predict(model, tokenizers, [example])[0]
            title = f"« {example['text']} » → {answer.output} ({100 * (answer.probability or 0):.0f} %)"
            found += attention_maps(model, asked.batch([row]), shown_tokens(tokenizer, asked.ids[row]), title=title)
        return found


def encoded(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None, longest: int) -> tuple[list[NDArray[np.int32]], int]:
    """Ids of at most `longest` tokens, and how many texts had to be cut."""
    ids = tokenizer.ids_batch(texts, pairs)
    cut = [row for row, own in enumerate(ids) if len(own) > longest]
    shorter = tokenizer.ids_batch([texts[row] for row in cut], None if pairs is None else [pairs[row] for row in cut], max_len=longest)
    for row, own in zip(cut, shorter, strict=True):
        ids[row] = own
    return ids, len(cut)


def log_probabilities(model: Model, dataset: LabelledTexts, budget: int, progress: Progress | None = None) -> NDArray[np.float64]:
    """(examples, classes), in the order of the split."""
    parts: list[NDArray[np.float64]] = []
    order: list[int] = []
    with evaluating(model):
        for batch in each_batch(model, dataset, budget, progress):
            logits, _ = model(batch)
            parts.append(logits.double().log_softmax(-1).cpu().numpy())
            order += batch.rows
    together = np.concatenate(parts)
    found = np.empty_like(together)
    found[order] = together
    return found


def _margin(answer: int, true: int, logits: Tensor) -> Tensor:
    return logits[:, answer] - logits[:, true]


def _plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers that JSON can hold: nothing in place of nan."""
    return [None if np.isnan(value) else value for value in values.tolist()]
