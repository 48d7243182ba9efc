"""Side-by-side measurement: contestants run one after the other in every round, forwards then backwards.

Machines have other things to do and clocks that change, so absolute times mean little: each round gives one ratio, and the median of the
rounds is the result.
"""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Ratio:
    """The median over rounds, and the quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def middle_half(values: list[float]) -> Ratio:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(statistics.median(values), low, high)


@dataclass(frozen=True)
class Timing(Generic[K]):
    """Seconds of every contestant in every round."""

    seconds: dict[K, list[float]]

    def median(self, name: K) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, peer: K, ours: K) -> Ratio:
        """How many times longer `peer` takes than `ours`: above 1, `ours` is faster."""
        return middle_half([theirs / own for theirs, own in zip(self.seconds[peer], self.seconds[ours], strict=True)])


def interleave(
    contestants: Mapping[K, Callable[[], object]], repeats: int = 9, warmup: int = 1, after: Callable[[K], None] | None = None
) -> Timing[K]:
    """Run the contestants in turns, `repeats` rounds after the warm-up; `after` hears of every run, outside of its time."""
    seconds: dict[K, list[float]] = {name: [] for name in contestants}
    for number in range(-warmup, repeats):
        order = list(contestants) if number % 2 == 0 else list(contestants)[::-1]
        for name in order:
            begin = time.perf_counter()
            contestants[name]()
            taken = time.perf_counter() - begin
            if number >= 0:
                seconds[name].append(taken)
            if after is not None:
                after(name)
    return Timing(seconds)
