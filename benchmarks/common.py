"""What the benchmarks share: every claim of speed is a ratio, taken in one process, in turns (`attentif.lab.timing`)."""

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeVar

import torch

from attentif.lab.machine import processor
from attentif.lab.timing import Timing

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is measured: `FULL` for figures worth quoting, `QUICK` to see that everything runs."""

    quick: bool
    repeats: int

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


FULL, QUICK = Scale(quick=False, repeats=11), Scale(quick=True, repeats=2)


@dataclass(frozen=True)
class Result:
    """The contestants of one case; the first is the one that the others are divided by."""

    case: str
    timing: Timing[str]
    goal: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)  # by contestant

    def markdown(self) -> str:
        names = list(self.timing.seconds)
        lines = [f"**{self.case}**" + (f" (goal: {self.goal})" if self.goal else ""), ""]
        lines += [f"| | median | middle half | × {names[0]} (quartiles) | |", "|---|---:|---:|---:|---|"]
        for name in names:
            low, middle, high = (
                format_seconds(value) for value in statistics.quantiles(self.timing.seconds[name], n=4, method="inclusive")
            )
            ratio = self.timing.ratio(name, names[0]) if name != names[0] else "1"
            lines.append(f"| {name} | {middle} | {low} to {high} | {ratio} | {self.notes.get(name, '')} |")
        return "\n".join(lines)


def format_seconds(seconds: float) -> str:
    return f"{1000 * seconds:.4g} ms" if seconds < 1 else f"{seconds:.2f} s"


def section(title: str, about: str, results: Iterable[Result | str]) -> Iterator[str]:
    """One benchmark's part of RESULTS.md, as it is measured; a plain string is a reason for leaving something out."""
    yield f"## {title}\n\n{about.strip()}\n"
    for result in results:
        yield (result if isinstance(result, str) else result.markdown()) + "\n"


def alone(title: str, about: str, run: Callable[[Scale], Iterable[Result | str]]) -> None:
    """One benchmark from the command line: `python -m benchmarks.train_step [--quick]`."""
    options = argparse.ArgumentParser(description=title)
    options.add_argument("--quick", action="store_true", help="tiny shapes: only to see that it runs")
    scale = QUICK if options.parse_args().quick else FULL
    print(environment("transformers"), end="\n\n")
    for part in section(title, about, run(scale)):
        print(part, flush=True)


def environment(*packages: str) -> str:
    """What the numbers were measured on, in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", *packages))
    busy = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{processor()}, {torch.get_num_threads()} threads{busy}; Python {platform.python_version()}, {versions}"
