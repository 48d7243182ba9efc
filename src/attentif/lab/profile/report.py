"""A profile: the points, what was fitted to them, what can be said, as JSON, as a table, as a page."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import torch

from attentif.errors import UsageError
from attentif.lab.fit import PowerLaw, power_law
from attentif.lab.machine import measures_memory, processor
from attentif.lab.profile.crossings import Crossing, Quantity, Rounds, crossing, sentence
from attentif.lab.profile.measure import PHASES, LeftOut, Phase, Point, Watch, measure
from attentif.lab.profile.subjects import Subject, subject
from attentif.runtime import keep_buffers
from attentif.training.progress import Silent
from attentif.version import __version__
from attentif.view.page import Fragment
from attentif.view.words import Text, with_decimals

WINDOW = {"name": "window 256", "kind": "attention", "pattern": [{"kind": "window", "left": 256}]}
USUAL: tuple[str | Mapping[str, Any], ...] = ("attention", WINDOW, "linear", "mamba", "lstm")
QUANTITIES: tuple[Quantity, ...] = ("seconds", "bytes")
LEAST_FITTED = 3  # lengths
BUSY = 1.0  # processes for each core from which times are doubtful


@dataclass(frozen=True)
class ProfileSettings:
    """How it was measured."""

    width: int
    lengths: tuple[int, ...]
    repeats: int
    limit: float  # seconds
    causal: bool
    threads: int


@dataclass(frozen=True)
class Fit:
    subject: str
    phase: Phase
    quantity: Quantity
    lengths: tuple[int, int]  # the shortest and the longest that it was fitted to
    law: PowerLaw


@dataclass(frozen=True)
class Profile:
    """What was measured; shown by a notebook, saved as one HTML file."""

    settings: ProfileSettings
    subjects: Mapping[str, Mapping[str, Any]]  # by name: what it is, its parameters
    points: Sequence[Point]
    left_out: Sequence[LeftOut]
    machine: str
    busy: float | None = None  # processes for each core when it began, where that is more than one can run well beside

    def rounds(self, name: str, phase: Phase, quantity: Quantity = "seconds") -> Rounds:
        """What was measured of one subject, by length."""
        own = [point for point in self.points if point.subject == name and point.phase == phase]
        if quantity == "seconds":
            return {point.length: point.seconds for point in own}
        return {point.length: (float(taken),) for point in own if (taken := _bytes(point))}

    @cached_property
    def fits(self) -> list[Fit]:
        """Power laws of the longer half of each subject's lengths: shorter ones are mostly what a call costs at all."""
        found = []
        for name in self.subjects:
            for phase in PHASES:
                for quantity in QUANTITIES:
                    rounds = self.rounds(name, phase, quantity)
                    lengths = sorted(rounds)[-max(LEAST_FITTED, (len(rounds) + 1) // 2) :]
                    if len(lengths) >= LEAST_FITTED:
                        law = power_law(lengths, [median(rounds[n]) for n in lengths])
                        found.append(Fit(name, phase, quantity, (lengths[0], lengths[-1]), law))
        return found

    def fit(self, name: str, phase: Phase, quantity: Quantity) -> Fit | None:
        return next((fit for fit in self.fits if (fit.subject, fit.phase, fit.quantity) == (name, phase, quantity)), None)

    @cached_property
    def crossings(self) -> list[Crossing]:
        """Every pair, at everything that was measured."""
        pairs = [(phase, quantity, pair) for phase in PHASES for quantity in QUANTITIES for pair in combinations(self.subjects, 2)]
        found = (crossing(pair, self.rounds(pair[0], phase, q), self.rounds(pair[1], phase, q), phase, q) for phase, q, pair in pairs)
        return [one for one in found if one is not None]

    def against_the_first(self, phase: Phase, quantity: Quantity = "seconds") -> list[Crossing]:
        """Every subject against the one that was named first."""
        first = next(iter(self.subjects))
        return [one for one in self.crossings if (one.phase, one.quantity) == (phase, quantity) and first in (one.winner, one.loser)]

    def words(self, quantity: Quantity = "seconds") -> list[Text]:
        """What can be said of each subject against the first one."""
        return [sentence(one) for phase in PHASES for one in self.against_the_first(phase, quantity)]

    def warning(self) -> Text | None:
        """What must be known before a time is believed."""
        if self.busy is None:
            return None
        return Text(
            "La machine était occupée : {n} programmes par cœur. Les temps sont douteux, les plus courts surtout ; la mémoire non.",
            "The machine was busy: {n} programs for each core. Times are doubtful, the shortest most; memory is not.",
        ).with_(n=with_decimals(self.busy, 1))

    def as_data(self) -> dict[str, Any]:
        """For `--json` and files: plain numbers, strings and lists."""
        return {
            "version": 1,
            "attentif": __version__,
            "machine": self.machine,
            "busy": self.busy,
            "settings": asdict(self.settings),
            "subjects": dict(self.subjects),
            "points": [asdict(point) | {"median": median(point.seconds)} for point in self.points],
            "fits": [asdict(fit) for fit in self.fits],
            "crossings": [asdict(one) for one in self.crossings],
            "words": [{"fr": text.fr, "en": text.en} for quantity in QUANTITIES for text in self.words(quantity)],
            "left_out": [asdict(one) for one in self.left_out],
        }

    def save(self, path: str | Path) -> Path:
        from attentif.lab.profile.page import profile_page

        profile_page(Path(path), self)
        return Path(path)

    def _repr_html_(self) -> str:
        from attentif.lab.profile.page import sections

        return Fragment(sections(self))._repr_html_()


def _bytes(point: Point) -> int:
    """What the peak adds to what was held before; decoding holds its state, which is counted."""
    return (point.peak or 0) + (point.state or 0) if point.peak is not None or point.state is not None else 0


def lengths_of(words: str) -> tuple[int, ...]:
    """ "128:16384" doubles from the first to the last; "128,500,2000" are these."""
    parts = words.split(":") if ":" in words else words.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() and int(part) > 0 for part in parts) or (":" in words and len(parts) != 2):
        raise UsageError(f"lengths must be such as 128:16384 or 128,1024,8192, not {words!r}")
    numbers = [int(part) for part in parts]
    if ":" in words:
        first, last = numbers
        if first > last:
            raise UsageError(f"lengths: {first} comes after {last}; the shorter one stands first")
        numbers = [n for power in range(last.bit_length() + 1) if (n := first << power) <= last]
        numbers += [last] if numbers[-1] < last else []
    return tuple(sorted(set(numbers)))


def profile(
    subjects: Sequence[str | Mapping[str, Any]] = USUAL,
    *,
    lengths: str | Sequence[int] = "128:16384",
    width: int = 256,
    layers: int | None = None,
    phases: Sequence[Phase] = PHASES,
    repeats: int = 5,
    limit: float = 2.0,
    causal: bool = True,
    watch: Watch | None = None,
) -> Profile:
    """Measure mixers and presets by name (or mixers as tables of values) on this machine, with torch's current number of threads."""
    chosen = lengths_of(lengths) if isinstance(lengths, str) else tuple(sorted(set(lengths)))
    if not subjects or not chosen or not set(phases) <= set(PHASES):
        raise UsageError(f"a profile needs something to measure, lengths, and phases of {', '.join(PHASES)}")
    built = [subject(one, width=width, longest=chosen[-1], causal=causal, layers=layers) for one in subjects]
    _refuse_twins(built)
    keep_buffers()
    watch = watch or Silent()
    watch.say(f"measuring {', '.join(one.name for one in built)} of width {width} at {chosen[0]:,} to {chosen[-1]:,} tokens")
    load = busy()  # before this one adds to it
    points, left = measure(built, chosen, phases, repeats=repeats, limit=limit, watch=watch)
    return Profile(
        ProfileSettings(width, chosen, repeats, limit, causal, torch.get_num_threads()),
        {one.name: {"kind": one.kind, "parameters": one.parameters} for one in built},
        points,
        left,
        describe_machine(),
        load,
    )


def _refuse_twins(subjects: Sequence[Subject]) -> None:
    names = [one.name for one in subjects]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f'{twice} is named twice; tell them apart by a name: {{name = "wide", kind = "{twice}", ...}}')


def busy() -> float | None:
    """Processes that wait for each core, where more of them wanted to run in the last minute than there are cores."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    return waiting if waiting > BUSY else None


def describe_machine() -> str:
    busy = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    threads = torch.get_num_threads()
    memory = "" if measures_memory() else "; memory cannot be measured on this system"
    return f"{processor()}, {threads} thread{'s' if threads > 1 else ''}{busy}, torch {torch.__version__}{memory}"
