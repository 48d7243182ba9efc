"""Texts, or pairs of texts, with their labels, encoded: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP] with segments."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attentif.data import Table
from attentif.errors import UsageError
from attentif.models import Batch, Input, eval_mode
from attentif.tasks.answers import EvalOptions
from attentif.tasks.attention import influence, running_text
from attentif.tasks.base import Dataset, Example
from attentif.tasks.batches import map_batches
from attentif.tasks.classification.linear import Floats
from attentif.tasks.classification.linear_features import LinearFeatures, LinearReading
from attentif.tasks.classification.report import TextError
from attentif.tasks.classification.word_dropout import drop_words
from attentif.tasks.predictors import LinearBatch, Predictor, networks_of
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.tasks.rows import EncodedRows
from attentif.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelledTexts(EncodedRows):
    """One split."""

    labels: Ints  # (N,) numbers of classes, or (N, C) of 0 and 1 where a text may have several
    reading: Callable[[], LinearReading] | None = None  # features and logits of the linear model
    linear_features: Callable[[], LinearFeatures] | None = None  # of the training split: the linear model fitted on it
    class_weights: Floats | None = None  # (C,): what an example of each class counts in training
    word_dropout: float = 0.0  # share of the tokens replaced by [UNK] anew in every batch: of the training split

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = inputs(self.ids, chosen, self.tokenizer, pairs="pair" in self.table.columns, packed=packed)
        if self.word_dropout:
            source = drop_words(source, self.word_dropout, self.tokenizer)
        labels, numbers = torch.from_numpy(self.labels[chosen]), tuple(chosen.tolist())
        weights = None if self.class_weights is None else torch.from_numpy(self.class_weights[self.labels[chosen]]).float()
        if self.reading is None:
            return Batch(source, labels=labels, rows=numbers, weights=weights)
        reading = self.reading()
        if reading.tokens is not None:
            places, inside = self.ids.places(chosen, packed=packed)
            features = torch.from_numpy(np.where(inside[..., None], reading.tokens[places], 0))
            source = replace(source, beside=Input(features, source.seq))
        return LinearBatch(source, labels=labels, rows=numbers, weights=weights, linear=torch.from_numpy(reading.logits[chosen]))

    def example(self, row: int) -> Example:
        return {role: self.table[role][row] for role in ("text", "pair") if role in self.table.columns}

    def joined_texts(self) -> list[str]:
        """Each example as one text, for models that count words; the words of a pair's second text are marked."""
        texts = self.table["text"]
        return [join_pair(a, b) for a, b in zip(texts, self.table["pair"], strict=True)] if "pair" in self.table.columns else texts


def join_pair(first: str, second: str) -> str:
    """A pair as one text of three parts: its first words, its second words marked as such, and the words that both have."""
    words = [re.findall(r"\w+", text.casefold()) for text in (first, second)]
    marked, shared = (f"second_{word}" for word in words[1]), (f"both_{word}" for word in sorted({*words[0]} & {*words[1]}))
    return "\n".join([first, " ".join(marked), " ".join(shared)])


def inputs(ids: Ragged, rows: Rows, tokenizer: Tokenizer, *, pairs: bool, packed: bool = False) -> Input:
    """The model's input, with segment ids for pairs if the tokenizer uses them (RoBERTa's does not)."""
    source = ids.input(rows, packed=packed, pad=tokenizer.pad)
    if not pairs or not tokenizer.frame_for("cls").marked:
        return source
    separators = source.data == tokenizer.sep
    before = separators.cumsum(-1) - separators.long()  # how many [SEP] stand before each token, of the pack where it is one
    if packed:
        before = before - 2 * source.seq.row
    return Input(source.data, source.seq, before.clamp(0, 1))


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None, longest: int
) -> tuple[list[NDArray[np.int32]], int]:
    """Ids of at most `longest` tokens, and the number of truncated texts."""
    ids = tokenizer.ids_batch(texts, pairs)
    cut = [row for row, own in enumerate(ids) if len(own) > longest]
    shorter = tokenizer.ids_batch([texts[row] for row in cut], None if pairs is None else [pairs[row] for row in cut], max_len=longest)
    for row, own in zip(cut, shorter, strict=True):
        ids[row] = own
    return ids, len(cut)


def encode_inputs(tokenizer: Tokenizer, examples: Sequence[Example], longest: int, *, pairs: bool | Literal["either"]) -> LabelledTexts:
    """Encode new texts as a split without labels."""
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
    ids, _ = encode_texts(tokenizer, columns["text"], columns.get("pair"), longest)
    table = Table.of_inputs(columns)
    return LabelledTexts(table=table, ids=Ragged.of(ids), labels=np.zeros(len(examples), np.int64), tokenizer=tokenizer)


def all_logits(predictor: Predictor, dataset: Dataset, options: EvalOptions) -> Floats:
    """(examples, classes), in the order of the split."""
    parts: list[Floats] = []
    order: list[int] = []
    networks = nn.ModuleList(networks_of(predictor))
    with eval_mode(networks):
        for rows, logits in map_batches(_batch_logits, predictor, dataset, options):
            parts.append(logits)
            order += rows
    together = np.concatenate(parts)
    found = np.empty_like(together)
    found[order] = together
    return found


def _batch_logits(predictor: Predictor, _: Dataset, batch: Batch) -> Floats:
    return predictor(batch)[0].double().cpu().numpy()


def show_error(model: Predictor, dataset: LabelledTexts, row: int, names: tuple[str, str], probability: float, wanted: Any) -> TextError:
    """One error for the report: `names` are the true and the predicted class, `wanted` the logit to attribute."""
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


def log_probabilities(model: Predictor, dataset: Dataset, options: EvalOptions) -> Floats:
    """(examples, classes) of the network alone, uncalibrated."""
    logits = all_logits(model, dataset, options)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
