"""What every task does around a model: batches on its device, the meta build that refuses contradictions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.data import plan
from attentif.errors import ConfigError, UsageError, within
from attentif.models import Batch, Model, ModelConfig, build
from attentif.tasks.task import Dataset, Example, Progress, Say
from attentif.text import Tokenizer, TokenizerConfig


def on_paper(model: ModelConfig) -> Model:
    """The model without weights: what cannot be built is refused here, before any data are read."""
    with within("model."):
        return build(model.with_any_size(), device="meta")


def device_of(model: Model) -> torch.device:
    return next(model.parameters()).device


def each_batch(
    model: Model,
    dataset: Dataset,
    budget: int,
    progress: Progress | None = None,
    rows: NDArray[np.int64] | None = None,
    *,
    packed: bool = False,
) -> Iterator[Batch]:
    """All examples of a split (or some), the longest first, on the model's device."""
    lengths = dataset.lengths if rows is None else dataset.lengths[rows]
    batches = plan(lengths, budget, seed=0, epoch=0, shuffle=False, packed=packed)
    for done, chosen in enumerate(batches, 1):
        yield dataset.batch(chosen if rows is None else rows[chosen], packed=packed).to(device_of(model))
        if progress is not None:
            progress(done, len(batches))


def limit_of(*limits: int | None) -> int:
    """The smallest limit that is one."""
    return min(limit for limit in limits if limit is not None)


class Again(Iterable[str]):
    """Texts that can be gone through more than once without being kept: `Again(corpus.texts)`."""

    def __init__(self, start: Callable[[], Iterator[str]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[str]:
        return self._start()


class Overheard:
    """While it is entered, notes the texts that a tokenizer is fitted on, or would be: those of the training split, whatever the task."""

    current: ClassVar["Overheard | None"] = None

    def __init__(self, beside: Iterable[str] = ()) -> None:
        self.beside = beside  # texts that the tokenizer reads too
        self.texts: list[Iterable[str]] = []

    def __enter__(self) -> Self:
        Overheard.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Overheard.current = None


def fitted(text: TokenizerConfig | Mapping[str, Tokenizer], name: str, texts: Iterable[str], say: Say) -> Tokenizer:
    """The run's own tokenizer of that name, or one trained on these texts."""
    if (listener := Overheard.current) is not None:
        listener.texts.append(texts)
    if isinstance(text, Mapping):
        if name not in text:
            raise ConfigError(f"model.from: that run has no tokenizer of its own for the {name}: it cannot be begun with here")
        return text[name]
    say(f"training the {text.kind} tokenizer")
    return text.fit(texts if listener is None else Again(lambda: chain(texts, listener.beside)))


def as_examples(inputs: Sequence[str | Example], role: str) -> list[Example]:
    """Plain texts as examples in which they play `role`."""
    examples: list[Example] = []
    for given in inputs:
        example = {role: given} if isinstance(given, str) else given
        if role not in example:
            raise UsageError(f"an input has no {role!r}: give a text, or a table with {role!r}")
        examples.append(example)
    return examples


def refuse_blank(inputs: Sequence[str | Example], role: str) -> None:
    """What holds nothing, or spaces alone, asks for nothing."""
    for number, given in enumerate(inputs, 1):
        parts = {role: given} if isinstance(given, str) else {key: given[key] for key in (role, "pair") if key in given}
        if blank := [key for key, text in parts.items() if not text.strip()]:
            which = f"input {number}: " if len(inputs) > 1 else ""
            raise UsageError(f"{which}the {blank[0]} is empty: there is nothing to read")


def counted(number: int, what: str) -> str:
    """ "1 text", "1,200 texts"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
