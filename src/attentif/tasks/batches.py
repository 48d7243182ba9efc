"""Helpers of all tasks: batches on the model's device, checks of models and inputs, rows, notes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attentif.data import plan
from attentif.errors import ConfigError, UsageError, within
from attentif.models import Batch, Model, ModelConfig, build
from attentif.tasks.answers import EvalOptions, RemoteMap
from attentif.tasks.base import Dataset, Example, Inputs, Say
from attentif.tasks.predictors import Predictor, networks_of

DEFAULTS = EvalOptions()


def build_meta(model: ModelConfig) -> Model:
    """Build the model without weights; raises what is wrong before any data are read."""
    with within("model."):
        return build(model.with_any_size(), device="meta")


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def iterate_batches(
    model: nn.Module,
    dataset: Dataset,
    options: EvalOptions = DEFAULTS,
    rows: NDArray[np.int64] | None = None,
    *,
    packed: bool = False,
) -> Iterator[Batch]:
    """Iterate over batches of a split (or of some rows), longest first, on the model's device."""
    batches = _plan_batches(dataset, options, rows, packed=packed)
    if options.progress is not None:  # at once: the first batch compiles kernels
        options.progress(0, len(batches))
    for done, chosen in enumerate(batches, 1):
        yield dataset.batch(chosen, packed=packed).to(device_of(model))
        if options.progress is not None:
            options.progress(done, len(batches))


def map_batches(
    work: Callable[[Any, Any, Batch], Any],
    model: Predictor,
    dataset: Dataset,
    options: EvalOptions = DEFAULTS,
    rows: NDArray[np.int64] | None = None,
) -> Iterator[tuple[list[int], Any]]:
    """The rows of each batch and `work(model, dataset, batch)`, which the workers of a cluster compute where there is one.

    `work` is a function of a module or a method of a task, and returns what can be sent: arrays and plain values.
    """
    if options.remote_map is None:
        for batch in iterate_batches(nn.ModuleList(networks_of(model)), dataset, options, rows):
            yield list(batch.rows), work(model, dataset, batch)
        return
    batches = _plan_batches(dataset, options, rows)
    if options.progress is not None:
        options.progress(0, len(batches))
    for done, (chosen, found) in enumerate(zip(batches, options.remote_map(work, batches), strict=True), 1):
        yield chosen.tolist(), found
        if options.progress is not None:
            options.progress(done, len(batches))


def take_rows(remote_map: RemoteMap, rows: NDArray[np.int64]) -> RemoteMap:
    """The same workers for a split that is made of some rows of theirs."""
    return lambda work, batches: remote_map(work, [rows[chosen] for chosen in batches])


def _plan_batches(
    dataset: Dataset, options: EvalOptions, rows: NDArray[np.int64] | None, *, packed: bool = False
) -> list[NDArray[np.int64]]:
    lengths = dataset.lengths if rows is None else dataset.lengths[rows]
    batches = plan(lengths, options.budget, seed=0, epoch=0, shuffle=False, packed=packed)
    return batches if rows is None else [rows[chosen] for chosen in batches]


def min_limit(*limits: int | None) -> int:
    """The smallest limit that is not None."""
    return min(limit for limit in limits if limit is not None)


def as_examples(inputs: Inputs, role: str) -> list[Example]:
    """Plain texts as examples in which they play `role`."""
    examples: list[Example] = []
    for given in inputs:
        example = {role: given} if isinstance(given, str) else given
        if role not in example:
            raise UsageError(f"an input has no {role!r}: give a text, or a table with {role!r}")
        examples.append(example)
    return examples


def refuse_blank(inputs: Inputs, role: str) -> None:
    """Refuse inputs that are empty, or no texts: None, NaN."""
    for number, given in enumerate(inputs, 1):
        parts = {key: given[key] for key in (role, "pair") if key in given} if isinstance(given, Mapping) else {role: given}
        if odd := [key for key, text in parts.items() if not isinstance(text, str)]:
            raise UsageError(f"input {number}: the {odd[0]} is {str(parts[odd[0]])[:40]!r} where a text is wanted", code="no-text")
        if blank := [key for key, text in parts.items() if not text.strip()]:
            which = f"input {number}: " if len(inputs) > 1 else ""
            raise UsageError(f"{which}the {blank[0]} is empty: there is nothing to read")


def format_count(number: int, what: str) -> str:
    """ "1 text", "1,200 texts"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def check_one_stack(model: ModelConfig, kind: str, instead: str = "encoder-tiny") -> None:
    """Refuse a model with an encoder and a decoder."""
    if model.encoder is not None and model.decoder is not None:
        raise ConfigError(f"model: {kind} reads with one stack, and this model has an encoder and a decoder; use for example {instead}")


def say_all(notes: Iterable[str], say: Say) -> None:
    for note in notes:
        say(note)


def pick_evenly(total: int, count: int) -> NDArray[np.int64]:
    """At most `count` row numbers below `total`, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, total - 1, count).astype(np.int64)) if total else np.empty(0, np.int64)


def longest_row(*splits: Dataset) -> int:
    """Number of tokens of the longest example."""
    return max(int(split.lengths.max()) for split in splits)
