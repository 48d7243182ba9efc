"""Texts, or pairs of texts, with their labels, encoded: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP] with segments."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.data import Table
from attentif.errors import DataError, UsageError
from attentif.models import Batch, Input, Model, evaluating
from attentif.tasks.feed import each_batch
from attentif.tasks.labels.evidence import Told
from attentif.tasks.labels.linear import Floats
from attentif.tasks.looking import influence, running_text
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.tasks.rows import EncodedRows
from attentif.tasks.task import Dataset, Example, Progress
from attentif.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelledTexts(EncodedRows):
    """One split."""

    labels: Ints  # (N,) numbers of classes, or (N, C) of 0 and 1 where a text may have several
    told: Callable[[], Told] | None = None  # what a linear model says of them

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = inputs(self.ids, chosen, self.tokenizer, pairs="pair" in self.table.columns, packed=packed)
        labels, numbers = torch.from_numpy(self.labels[chosen]), tuple(chosen.tolist())
        if self.told is None:
            return Batch(source, labels=labels, rows=numbers)
        places, inside = self.ids.places(chosen, packed=packed)
        told = self.told()
        evidence = torch.from_numpy(np.where(inside[..., None], told.tokens[places], 0))
        source = replace(source, beside=Input(evidence, source.seq))
        return Batch(source, labels=labels, rows=numbers, offset=torch.from_numpy(told.answers[chosen]))

    def example(self, row: int) -> Example:
        return {role: self.table[role][row] for role in ("text", "pair") if role in self.table.columns}

    def joined(self) -> list[str]:
        """Each example as one text, for systems that count words: of a pair, the second text's words are others than the first's."""
        texts = self.table["text"]
        return [joined(a, b) for a, b in zip(texts, self.table["pair"], strict=True)] if "pair" in self.table.columns else texts


def joined(first: str, second: str) -> str:
    """A pair as one text of three parts: its first words, its second words marked as such, and the words that both have."""
    words = [re.findall(r"\w+", text.casefold()) for text in (first, second)]
    marked, shared = (f"second_{word}" for word in words[1]), (f"both_{word}" for word in sorted({*words[0]} & {*words[1]}))
    return "\n".join([first, " ".join(marked), " ".join(shared)])


def inputs(ids: Ragged, rows: Rows, tokenizer: Tokenizer, *, pairs: bool, packed: bool = False) -> Input:
    """What the model reads, with segments where there are pairs (and the tokenizer tells them apart so: RoBERTa's does not)."""
    source = ids.input(rows, packed=packed, pad=tokenizer.pad)
    if not pairs or not tokenizer.framed("cls").marked:
        return source
    separators = source.data == tokenizer.sep
    before = separators.cumsum(-1) - separators.long()  # how many [SEP] stand before each token, of the pack where it is one
    if packed:
        before = before - 2 * source.seq.row
    return Input(source.data, source.seq, before.clamp(0, 1))


def encoded(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None, longest: int) -> tuple[list[NDArray[np.int32]], int]:
    """Ids of at most `longest` tokens, and how many texts had to be cut."""
    ids = tokenizer.ids_batch(texts, pairs)
    cut = [row for row, own in enumerate(ids) if len(own) > longest]
    shorter = tokenizer.ids_batch([texts[row] for row in cut], None if pairs is None else [pairs[row] for row in cut], max_len=longest)
    for row, own in zip(cut, shorter, strict=True):
        ids[row] = own
    return ids, len(cut)


def asked(tokenizer: Tokenizer, examples: Sequence[Example], longest: int, *, pairs: bool | Literal["either"]) -> LabelledTexts:
    """New texts as a split without labels; those of a model that reads pairs are pairs."""
    if pairs == "either":
        pairs = "pair" in examples[0]
        if any(pairs != ("pair" in example) for example in examples):
            raise UsageError("some of these are pairs and others single texts: ask for them apart")
    for number, example in enumerate(examples, 1):
        if pairs != ("pair" in example):
            if not pairs:
                raise UsageError(f"this model reads single texts, and input {number} is a pair")
            raise UsageError(f"this model reads pairs, and input {number} is one text: give both, by --pair TEXT or in a file")
    columns = {role: [example[role] for example in examples] for role in (["text", "pair"] if pairs else ["text"])}
    places = np.stack([np.zeros(len(examples), np.int64), np.arange(1, len(examples) + 1)], axis=1)
    ids, _ = encoded(tokenizer, columns["text"], columns.get("pair"), longest)
    table = Table("input", columns, ["input"], places)
    return LabelledTexts(table=table, ids=Ragged.of(ids), labels=np.zeros(len(examples), np.int64), tokenizer=tokenizer)


def all_logits(model: Model, dataset: Dataset, budget: int, progress: Progress | None = None) -> Floats:
    """(examples, classes), in the order of the split."""
    parts: list[Floats] = []
    order: list[int] = []
    with evaluating(model):
        for batch in each_batch(model, dataset, budget, progress):
            logits, _ = model(batch)
            parts.append(logits.double().cpu().numpy())
            order += batch.rows
    together = np.concatenate(parts)
    found = np.empty_like(together)
    found[order] = together
    return found


def shown_error(model: Model, dataset: LabelledTexts, row: int, names: tuple[str, str], probability: float, wanted: Any) -> dict[str, Any]:
    """One error as plain data: `names` are what is true and what was answered, `wanted` what the answer rested on."""
    example = dataset.example(row)
    encoding = dataset.tokenizer.encode(*example.values(), max_len=len(dataset.ids[row]))
    moved = influence(model, dataset.batch([row]), wanted)
    return {
        "text": example["text"],
        "true": names[0],
        "predicted": names[1],
        "probability": probability,
        "place": dataset.place(row),
        "tokens": running_text(encoding, *example.values()),
        "values": [0.0] * len(encoding) if moved is None else [round(float(v), 4) for v in moved[0]],
    }


def log_probabilities(model: Model, dataset: Dataset, budget: int, progress: Progress | None = None) -> Floats:
    """(examples, classes) of the network alone, as it was trained."""
    logits = all_logits(model, dataset, budget, progress)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def unknown_label(label: str, place: str, labels: Sequence[str]) -> DataError:
    return DataError(f"{place}: the label {label!r} is none of the model's classes ({', '.join(labels[:10])})")
