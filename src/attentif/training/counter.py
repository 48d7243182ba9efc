"""Counts that mixers report beside their outputs (tokens per expert), summed over batches, ranks and steps.

They are exchanged as one flat list of numbers, in the order of the mixers in the model.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from torch import nn

from attentif.nn.auxiliary import Auxiliary, CountingModule
from attentif.nn.tape import sublayer_path


class Counter:
    """Mixers of a model that report counts, by sublayer path; most models have none."""

    def __init__(self, model: nn.Module) -> None:
        self.mixers = {sublayer_path(name): module for name, module in model.named_modules() if isinstance(module, CountingModule)}

    def zeros(self) -> list[float]:
        return [0.0] * sum(mixer.numbers for mixer in self.mixers.values())

    def collect(self, auxiliary: Auxiliary) -> list[float]:
        """The counts of one forward pass."""
        found: list[float] = []
        for mixer in self.mixers.values():
            counts = auxiliary.counts.get(mixer)
            found += [0.0] * mixer.numbers if counts is None else [float(number) for number in counts.tolist()]
        return found

    def learn(self, counts: Sequence[float]) -> None:
        """After a step of the optimiser: the counts of all its batches on all processes."""
        for _, mixer, own in self._split(counts):
            mixer.learn(own)

    def describe(self, counts: Sequence[float]) -> dict[str, Any]:
        """For a line of metrics: numbers as means over the mixers, lists by mixer."""
        means: dict[str, list[float]] = {}
        lists: dict[str, dict[str, list[float]]] = {}
        for path, mixer, own in self._split(counts):
            for key, value in mixer.describe(own).items():
                if isinstance(value, float):
                    means.setdefault(key, []).append(value)
                else:
                    lists.setdefault(key, {})[path] = value
        return {key: fmean(values) for key, values in means.items()} | lists

    def _split(self, counts: Sequence[float]) -> Iterator[tuple[str, CountingModule, Sequence[float]]]:
        begin = 0
        for path, mixer in self.mixers.items():
            yield path, mixer, counts[begin : begin + mixer.numbers]
            begin += mixer.numbers


def add_lists(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]
