"""Side-by-side measurement: every claim of speed is a ratio, taken in one process, in turns.

Machines have other things to do and clocks that change, so absolute times mean little. Contestants run one after the other in every
round, forwards then backwards; each round gives one ratio, and the median of the rounds is the result.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch


@dataclass(frozen=True)
class Ratio:
    """The median over rounds, and the quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Timing:
    """Seconds of every contestant in every round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, peer: str = "peer", ours: str = "ours") -> Ratio:
        """How many times longer `peer` takes than `ours`: above 1 we are faster."""
        rounds = [theirs / own for theirs, own in zip(self.seconds[peer], self.seconds[ours], strict=True)]
        low, _, high = statistics.quantiles(rounds, n=4, method="inclusive")
        return Ratio(statistics.median(rounds), low, high)


def interleave(contestants: Mapping[str, Callable[[], object]], repeats: int = 9, warmup: int = 1) -> Timing:
    """Run the contestants in turns, `repeats` rounds after the warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(-warmup, repeats):
        order = list(contestants) if number % 2 == 0 else list(reversed(contestants))
        for name in order:
            begin = time.perf_counter()
            contestants[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - begin)
    return Timing(seconds)


def environment(*packages: str) -> str:
    """What the numbers were measured on, in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", *packages))
    busy = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{_processor()}, {torch.get_num_threads()} threads{busy}; Python {platform.python_version()}, {versions}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return f"{len(names)} cores of {names[0]}" if names else f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"
