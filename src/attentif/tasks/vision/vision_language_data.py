"""Pictures with their questions, as batches."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.data.questions import Questions
from attentif.errors import UsageError, within
from attentif.models import Batch, Input, ModelConfig
from attentif.models.frontends.joined import JoinedConfig
from attentif.models.frontends.pictures import PictureConfig
from attentif.nn.seq import Seq
from attentif.tasks.base import Example, Inputs
from attentif.tasks.narrow import narrow
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.vision.image import standardise
from attentif.text import Tokenizer

ALIKE = 3  # times the mean number of tokens: up to it, pictures are not told apart by the length of what is asked about them


@dataclass(frozen=True)
class AskedPictures:
    """One split, a picture with its questions a row."""

    questions: Questions
    ids: Ragged  # of each question: [BOS] question [SEP] answer [EOS] for a decoder, [CLS] question [SEP] for one encoder
    prompts: Ints  # tokens of it that stand before the answer
    answers: Ints | None  # one encoder: the number of the answer, UNSCORED where training never gives it
    tokenizer: Tokenizer
    patches: int  # tokens that a picture becomes
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def name(self) -> str:
        return self.questions.table.name

    def __len__(self) -> int:
        return len(self.questions.pixels)

    @cached_property
    def lengths(self) -> Ints:
        """A picture is read once by an encoder that a decoder looks at, and with each question by the only one.

        Pictures with about as many questions count alike: sorted by them, as batches are, a batch would hold scenes of as many digits,
        and "how many" be answered without looking.
        """
        own = self.ids.lengths + self.patches if self.answers is not None else self.ids.lengths - 1
        texts = np.bincount(self.questions.picture, weights=own, minlength=len(self)).astype(np.int64)
        if texts.max() <= ALIKE * texts.mean():
            texts = np.full_like(texts, round(texts.mean()))
        return texts if self.answers is not None else np.stack([np.full(len(self), self.patches), texts], 1)

    def questions_about(self, pictures: Rows) -> Ints:
        """The questions about these pictures, picture by picture."""
        return np.concatenate([self.questions.by_picture[picture] for picture in pictures])

    def pixels(self, pictures: Rows) -> Input:
        chosen = np.asarray(pictures, dtype=np.int64)
        data = standardise(self.questions.pixels[chosen], self.mean, self.std)
        return Input(data, Seq.from_padded(torch.full((len(chosen),), self.patches)))

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """One encoder's texts are packed where that is asked for; a decoder's are padded, as the pictures that they look at are."""
        chosen, questions = tuple(int(row) for row in rows), self.questions_about(rows)
        index = torch.from_numpy(np.repeat(np.arange(len(chosen)), [len(self.questions.by_picture[row]) for row in chosen]))
        pictures = replace(self.pixels(chosen), index=index)
        if self.answers is not None:
            text = self.ids.input(questions, packed=packed, pad=self.tokenizer.pad)
            return Batch(replace(text, beside=pictures), labels=torch.from_numpy(self.answers[questions]), rows=chosen)
        target = self.ids.trim(last=1).input(questions, packed=False, pad=self.tokenizer.pad)
        labels = self.ids.trim(first=1).values(questions, packed=False, fill=UNSCORED)
        before = torch.arange(labels.shape[1]) < torch.from_numpy(self.prompts[questions] - 1)[:, None]
        return Batch(pictures, target, labels.masked_fill(before, UNSCORED), chosen)

    def place(self, row: int) -> str:
        return self.questions.table.place(int(self.questions.by_picture[row][0]))


def change_pictures(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with other pixels: they are the source of an encoder with a decoder, and beside the text of one that reads both."""
    if batch.target is not None:
        return replace(batch, source=replace(batch.source, data=change(batch.source.data)))
    assert batch.source.beside is not None
    beside = replace(batch.source.beside, data=change(batch.source.beside.data))
    return replace(batch, source=replace(batch.source, beside=beside))


def patches_of(model: ModelConfig) -> int:
    """Tokens that a picture becomes; ConfigError where it cannot be cut so."""
    patches = _picture_config(model)
    with within("model.frontend."):
        patches.check()
    return patches.tokens_per_picture


def grid_of(model: ModelConfig) -> tuple[int, int]:
    return _picture_config(model).grid


def _picture_config(model: ModelConfig) -> PictureConfig:
    return narrow(model.frontend.patches if isinstance(model.frontend, JoinedConfig) else model.frontend, PictureConfig)


def question_examples(inputs: Inputs) -> list[Example]:
    """Questions with their pictures; one given as text is JSON, for a question alone has no answer."""
    examples: list[Example] = []
    wanted = '{"image": "scene.png", "question": "..."}'
    for given in inputs:
        example: Any = given
        if isinstance(given, str):
            try:
                example = json.loads(given)
            except ValueError:
                raise UsageError(f"a question needs its picture: give {wanted}, or --file with the columns image and question") from None
        if not isinstance(example, dict) or not all(
            isinstance(example.get(role), str) and example[role].strip() for role in ("image", "question")
        ):
            raise UsageError(f"an input lacks its image or its question: give {wanted}")
        examples.append(example)
    return examples
