"""Small models that read texts for an experiment: pre-trained on the texts alone, then taught by a few labels where each comes from.

    masked     some words are hidden, and found from both sides       (Devlin et al. 2019)
    causal     each word is found from those before it                (Radford et al. 2018)

Both have the same shape, and the same head over the mean of all places; what differs is whether attention looks ahead. The texts are
passages of Python's standard library, real text that every machine has; a label says which package a passage is from.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.data.builtin.stdlib import SPLITS, documents
from attentif.lab.experiment import Settings
from attentif.lab.small import fresh, optimize, reading_both_ways, reading_forwards
from attentif.models import Batch, Input, Model
from attentif.tasks.base import EvalOptions
from attentif.tasks.classification.data import LabelledTexts, all_logits, encode_inputs
from attentif.tasks.pretraining.masking import Vocabulary, choose, hide
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.token_loss import token_loss
from attentif.text.kinds import Word

Objective = Literal["masked", "causal"]
SHARE = 0.15  # of the words are chosen, as for BERT
BATCH = 32
PACKAGES = ("asyncio", "email", "unittest", "xml")  # of Python's standard library
WORDS = 24  # of a passage
VOCABULARY = 1000  # the most frequent words; the others are unknown
ASKED = 8192  # tokens of a batch of questions
RATE, FINE_RATE = 1e-2, 1e-2  # of pre-training, and of a classifier after it: in trials, at least as good as lower ones at the tiny size
FRESH_RATE = 3e-2  # of a classifier without it: in a trial, better than 1e-2 and 3e-3


@dataclass(frozen=True, kw_only=True)
class TextSizes:
    """How much is read, and by what."""

    texts: int  # passages that pre-training reads
    tested: int
    width: int
    layers: int
    reading: int  # steps of pre-training
    teaching: int  # steps on labelled passages

    @classmethod
    def of(cls, settings: Settings) -> "TextSizes":
        return settings.pick(
            tiny=cls(texts=4000, tested=600, width=32, layers=1, reading=400, teaching=80),
            normal=cls(texts=5800, tested=1000, width=32, layers=1, reading=800, teaching=200),
            full=cls(texts=5800, tested=1000, width=64, layers=2, reading=4000, teaching=400),
        )


@cache
def _passages() -> list[tuple[str, int]]:
    """Passages of these packages one after the other, words alone, and which package each is from."""
    found = []
    for split in SPLITS:
        for document in documents(split):
            package = document.name.split("/")[0]
            if package in PACKAGES:
                words = re.findall("[a-z]+", document.text.lower())
                cut = range(0, len(words) - WORDS + 1, WORDS)
                found += [(" ".join(words[start : start + WORDS]), PACKAGES.index(package)) for start in cut]
    return found


def passages(texts: int, tested: int, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """Passages to read and to learn from, and others to be asked about."""
    known = _passages()
    drawn = [known[place] for place in np.random.default_rng(seed).permutation(len(known))]
    parts = drawn[tested : tested + texts], drawn[:tested]
    tokenizer = Word(vocab=VOCABULARY).fit(text for text, _ in parts[0])

    def read(rows: Sequence[tuple[str, int]]) -> LabelledTexts:
        without = encode_inputs(tokenizer, [{"text": text} for text, _ in rows], WORDS + 2, pairs=False)
        return replace(without, labels=np.array([label for _, label in rows]))

    return read(parts[0]), read(parts[1])


def shuffle_words(texts: LabelledTexts, seed: int) -> LabelledTexts:
    """The same words, as often, dealt out anew among all texts: nothing about one tells another."""
    flat = texts.ids.flat.copy()
    words = ~Vocabulary(texts.tokenizer).special.numpy()[flat]
    flat[words] = np.random.default_rng(seed).permutation(flat[words])
    return replace(texts, ids=replace(texts.ids, flat=flat))


class School:
    """Models of one size, trained on the same texts and the same labels in the same order."""

    def __init__(self, sizes: TextSizes, seed: int, tick: Callable[[], None], *, senseless: bool = False) -> None:
        """`senseless`: what pre-training reads makes no sense."""
        self.sizes, self.seed, self.tick = sizes, seed, tick
        self.train, self.test = passages(sizes.texts, sizes.tested, seed)
        self.read = shuffle_words(self.train, seed) if senseless else self.train
        self.vocabulary = Vocabulary(self.train.tokenizer)
        self.order = np.random.default_rng(seed).permutation(len(self.train))  # fewer labels are among the more

    @property
    def chance(self) -> float:
        """The share of right answers of whoever always says the most frequent package."""
        return float(np.bincount(self.test.labels).max() / len(self.test))

    def reader(self, objective: Objective, head: dict[str, Any]) -> Model:
        """An untrained one; the seed decides its weights."""
        torch.manual_seed(self.seed)
        width, causal = self.sizes.width, objective == "causal"
        attention = {"kind": "attention", "heads": 4, "causal": causal, "rotary": {}}
        mixers = {"attn": attention, "ffn": {"kind": "feed-forward", "hidden": 2 * width, "activation": "gelu"}}
        reading = reading_forwards if causal else reading_both_ways
        return fresh(reading(mixers, vocab=self.train.tokenizer.vocab, width=width, layers=self.sizes.layers) | {"head": head})

    def pretrain(self, objective: Objective) -> Model:
        """Pre-train a model on all texts, without labels."""
        model = self.reader(objective, {"kind": "language"})
        generator = np.random.default_rng(self.seed)

        def loss(_: int) -> Tensor:
            source = self.read.batch(generator.integers(0, len(self.read), BATCH)).source
            ids, labels = shift_targets(source.data, self.vocabulary) if objective == "causal" else self.mask(source.data)
            total, count = token_loss(model, Batch(Input(ids, source.seq), labels=labels))
            return total / count

        return optimize(model, loss, steps=self.sizes.reading, lr=RATE, tick=self.tick)

    def mask(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Masked input ids and their targets."""
        return hide(ids, choose(ids, self.vocabulary, SHARE), self.vocabulary)

    def classifier(self, objective: Objective, initial: Model | None = None) -> Model:
        """A classifier before its first label; `initial` lends its weights, all but the head's."""
        model = self.reader(objective, {"kind": "classify", "pool": "mean", "classes": len(PACKAGES)})
        if initial is not None:
            own = model.state_dict()
            model.load_state_dict(own | {name: weight for name, weight in initial.state_dict().items() if name in own})
        return model

    def right(self, objective: Objective, labelled: int, initial: Model | None = None) -> float:
        """The share of right answers on other passages, after so many labels."""
        model = self.classifier(objective, initial)
        generator, rows = np.random.default_rng(self.seed), self.order[:labelled]

        def loss(_: int) -> Tensor:
            batch = self.train.batch(generator.choice(rows, BATCH))
            assert batch.labels is not None
            return F.cross_entropy(model(batch)[0], batch.labels)

        rate = FRESH_RATE if initial is None else FINE_RATE
        optimize(model, loss, steps=self.sizes.teaching, lr=rate, tick=self.tick)
        return float((all_logits(model, self.test, EvalOptions(ASKED)).argmax(1) == self.test.labels).mean())


def shift_targets(ids: Tensor, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Input ids and next-token targets; the end token is scored, padding is not."""
    later = F.pad(ids[:, 1:], (0, 1), value=vocabulary.tokenizer.pad)
    return ids, torch.where(later == vocabulary.tokenizer.pad, UNSCORED, later)
