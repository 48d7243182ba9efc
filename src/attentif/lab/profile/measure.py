"""Time and memory against length: a first look at every point, then all points in turns.

The first look warms up, takes the peak of memory, and stops before a length that would take longer than the limit or more memory than the
machine has left, going by how the last doubling grew. Then rounds: every subject at every length once, forwards and backwards in turn, so
that what else the machine does falls on all alike.
"""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from attentif.lab.machine import available_memory, peak_bytes
from attentif.lab.profile.subjects import Job, Subject
from attentif.lab.timing import interleave
from attentif.view.words import Text, count, duration, size

Phase = Literal["forward", "training", "decoding"]
PHASES: tuple[Phase, ...] = ("forward", "training", "decoding")
WORTH = 0.005  # seconds that a timed run should take at least: shorter jobs are run several times in a row
MOST_TIMES = 200
PEAKS, CHEAP = 3, 0.2  # the peak is the middle one of so many, where a run takes fewer seconds than this
CUBIC = 8.0  # nothing here grows faster in a doubling; what seems to was held up
SHARE = 0.7  # of the memory that is left, what one point may take


@dataclass(frozen=True, slots=True)
class Point:
    """What one subject took at one length."""

    subject: str
    phase: Phase
    length: int
    seconds: tuple[float, ...]  # one for each round
    peak: int | None  # bytes above those held before
    state: int | None = None  # decoding: bytes of the state, counted


@dataclass(frozen=True, slots=True)
class LeftOut:
    """From this length on nothing was measured, and why."""

    subject: str
    phase: Phase
    length: int
    reason: Text


class Watch(Protocol):
    """Receives messages and progress."""

    def say(self, line: str) -> None: ...

    def work(self, what: str, done: int, total: int) -> None: ...


@dataclass
class _Prepared:
    job: Job
    times: int  # runs that are timed together
    peak: int | None
    state: int | None


def measure(
    subjects: Sequence[Subject], lengths: Sequence[int], phases: Sequence[Phase], *, repeats: int, limit: float, watch: Watch
) -> tuple[list[Point], list[LeftOut]]:
    """Every point that fits the limits."""
    points: list[Point] = []
    left: list[LeftOut] = []
    for phase in phases:
        ready: dict[tuple[str, int], _Prepared] = {}
        for number, subject in enumerate(subjects):
            watch.work(f"{phase}: first look at {subject.name}", number, len(subjects))
            found, missing = first_look(subject, phase, lengths, limit)
            ready |= {(subject.name, length): prepared for length, prepared in found.items()}
            left += [missing] if missing else []
        points += _rounds(phase, ready, repeats, watch)
    return points, left


def first_look(subject: Subject, phase: Phase, lengths: Sequence[int], limit: float) -> tuple[dict[int, _Prepared], LeftOut | None]:
    """Length by length, until one cannot be measured."""
    gc.collect()  # garbage that goes during a measurement would hide what comes
    known: dict[int, float] = {}
    found: dict[int, _Prepared] = {}
    missing = lambda length, reason: (found, LeftOut(subject.name, phase, length, reason))
    if phase == "decoding" and not subject.streams:
        return missing(lengths[0], Text("il lit des deux côtés et n’écrit pas", "it looks both ways and does not write"))
    for length in lengths:
        if subject.longest is not None and length > subject.longest:
            return missing(length, Text("il lit au plus {n} jetons", "it reads at most {n} tokens").with_(n=count(subject.longest)))
        if (seconds := extrapolate(known, length)) > limit:
            said = Text("il faudrait environ {time} (limite : {limit})", "it would take about {time} (limit: {limit})")
            return missing(length, said.with_(time=duration(seconds), limit=duration(limit)))
        peaks = {n: float(p.peak or 0) + (p.state or 0) for n, p in found.items()}
        free, wanted = available_memory(), max(extrapolate(peaks, length), 0.0)
        if free is not None and wanted > SHARE * free:
            said = Text(
                "il faudrait environ {size} de mémoire ; {free} sont libres", "it would need about {size} of memory; {free} are free"
            )
            return missing(length, said.with_(size=size(wanted), free=size(free)))
        found[length], known[length] = _prepare(subject, phase, length, warm=bool(known))
    return found, None


def extrapolate(known: dict[int, float], length: int) -> float:
    """Extrapolate the cost of a length from the last doubling."""
    if len(known) < 2:
        return 0.0
    (before_last, before), (last, now) = list(known.items())[-2:]
    if not before:
        return now
    growth = max(now / before, 1.0) ** (1 / math.log2(last / before_last))  # for a doubling
    return now * min(growth, CUBIC) ** math.log2(length / last)


def _prepare(subject: Subject, phase: Phase, length: int, *, warm: bool) -> tuple[_Prepared, float]:
    """The job of one point, its memory, and the seconds of one run."""
    state = None
    if phase == "decoding":
        decoding = subject.decoding(length)
        job, state = decoding.step, decoding.state.bytes()
    else:
        job = subject.forward(length) if phase == "forward" else subject.training(length)
    if not warm:
        job()  # compiles what must be compiled
    seconds = _time(job)
    if seconds < CHEAP:  # a single short run tells more about what else the machine does
        seconds = min(seconds, *(_time(job) for _ in range(PEAKS)))
    peaks = [peak_bytes(job) for _ in range(1 if seconds > CHEAP else PEAKS)]
    peak = None if peaks[0] is None else sorted(peak or 0 for peak in peaks)[len(peaks) // 2]
    times = max(1, min(MOST_TIMES, math.ceil(WORTH / max(seconds, 1e-7))))
    return _Prepared(job, times, peak, state), seconds


def _time(job: Job) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def _rounds(phase: Phase, ready: dict[tuple[str, int], _Prepared], repeats: int, watch: Watch) -> list[Point]:
    total, done = repeats * len(ready), 0

    def report(key: tuple[str, int]) -> None:
        nonlocal done
        done += 1
        watch.work(f"{phase}: {key[0]} at {key[1]}", done, total)

    by_length = sorted(ready, key=lambda key: key[1])  # those that will be compared run one after the other
    jobs = {key: several(ready[key].job, ready[key].times) for key in by_length}
    timing = interleave(jobs, repeats, warmup=0, after=report)
    return [
        Point(name, phase, length, tuple(second / prepared.times for second in timing.seconds[name, length]), prepared.peak, prepared.state)
        for (name, length), prepared in ready.items()
    ]


def several(job: Job, times: int) -> Callable[[], None]:
    """The job so many times in a row: what is short is timed together."""

    def run() -> None:
        for _ in range(times):
            job()

    return run
