"""The counts that mixers hand over beside their outputs, added up over batches, processes and steps.

They travel as one flat list of numbers, those of each mixer in the order of the model.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from torch import nn

from attentif.nn.aside import Aside, Counting
from attentif.nn.tape import sublayer_path


class Counter:
    """The mixers of a model that count, by sublayer path; most models have none."""

    def __init__(self, model: nn.Module) -> None:
        self.mixers = {sublayer_path(name): module for name, module in model.named_modules() if isinstance(module, Counting)}

    def nothing(self) -> list[float]:
        return [0.0] * sum(mixer.numbers for mixer in self.mixers.values())

    def heard(self, aside: Aside) -> list[float]:
        """What was counted in one forward."""
        found: list[float] = []
        for mixer in self.mixers.values():
            said = aside.counts.get(mixer)
            found += [0.0] * mixer.numbers if said is None else [float(number) for number in said.tolist()]
        return found

    def learn(self, counts: Sequence[float]) -> None:
        """After a step of the optimiser: the counts of all its batches on all processes."""
        for _, mixer, own in self._shared_out(counts):
            mixer.learn(own)

    def describe(self, counts: Sequence[float]) -> dict[str, Any]:
        """For a line of metrics: numbers as means over the mixers, lists by mixer."""
        means: dict[str, list[float]] = {}
        lists: dict[str, dict[str, list[float]]] = {}
        for path, mixer, own in self._shared_out(counts):
            for key, value in mixer.describe(own).items():
                if isinstance(value, float):
                    means.setdefault(key, []).append(value)
                else:
                    lists.setdefault(key, {})[path] = value
        return {key: fmean(values) for key, values in means.items()} | lists

    def _shared_out(self, counts: Sequence[float]) -> Iterator[tuple[str, Counting, Sequence[float]]]:
        begin = 0
        for path, mixer in self.mixers.items():
            yield path, mixer, counts[begin : begin + mixer.numbers]
            begin += mixer.numbers


def added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]
