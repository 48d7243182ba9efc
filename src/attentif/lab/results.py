"""Stored results: one JSON file per experiment, with date, versions and machine, written atomically.

A result is valid for its size, seed and program sources. `measure_all` runs the experiments without a valid result, so that it resumes
where it was interrupted.
"""

import hashlib
import json
import math
import os
import platform
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from attentif.cluster import Cluster
from attentif.errors import RunError, UsageError
from attentif.files import write_json
from attentif.lab.experiment import SIZES, Experiment, Measurements, Settings, Verdict, words
from attentif.lab.machine import processor
from attentif.lab.sources import hash_package
from attentif.training.progress import Display, Silent
from attentif.training.rundir import RUNS
from attentif.training.signals import StoppedError
from attentif.version import __version__

PLACE = RUNS / "lab"
SHORTEST = 0.01  # seconds, as durations are stored
MARGIN = 1.3  # of the seeds that are said to be needed: mean and deviation are estimates


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement of one experiment."""

    experiment: Experiment
    settings: Settings
    measurements: Measurements
    date: str
    duration: float  # seconds
    versions: dict[str, str]
    machine: dict[str, Any]
    source: str  # SHA-256 of the program and the experiment's file

    @property
    def verdict(self) -> Verdict:
        """Computed from the measurements; the verdict in the file is for other readers."""
        return self.experiment.verdict(self.measurements)

    @property
    def fresh(self) -> bool:
        """Whether it was measured by the current sources."""
        return self.source == hash_program(self.experiment)

    def as_data(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "claim": words(self.experiment.claim),
            "verdict": self.verdict.as_data(),
            "choices": [words(choice) for choice in self.experiment.choices],
            "size": self.settings.size,
            "seed": self.settings.seed,
            "more": self.settings.more,
            "minutes": self.settings.minutes,
            "date": self.date,
            "duration": self.duration,
            "versions": self.versions,
            "machine": self.machine,
            "source": self.source,
            "measurements": self.measurements,
        }


def hash_program(experiment: Experiment) -> str:
    """Hash the package and the experiment's file, which may be outside of it."""
    file = sys.modules[experiment.measure.__module__].__file__
    assert file is not None
    return hashlib.sha256(hash_package().encode() + Path(file).read_bytes()).hexdigest()


def measure(experiment: Experiment, settings: Settings, display: Display) -> Result:
    """Run the experiment; with more seeds while a part is undecided and `settings.minutes` allow it."""
    result = measure_once(experiment, settings, display)
    spent = result.duration
    while undecided := result.verdict.undecided:
        more, each = result.settings.more, max(result.duration, SHORTEST) / result.settings.more
        affordable = int((60 * settings.minutes - spent) / each)
        needed = more * MARGIN * max(part.seeds_needed for part in undecided)
        enough = affordable if needed > affordable else math.ceil(needed)
        if enough <= more:
            break
        display.say(f"  undecided after {spent:.0f} s: again with {enough} times the seeds")
        result = measure_once(experiment, replace(settings, more=enough), display)
        spent += result.duration
    return result


def measure_once(experiment: Experiment, settings: Settings, display: Display) -> Result:
    """Run the experiment with these seeds."""
    import torch

    date, began = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    try:
        found = experiment.measure(settings, lambda done, total: display.work(experiment.name, done, total))
    finally:
        display.close()
    # through JSON and back: what is judged now is what will be read from the file
    plain = json.loads(json.dumps(found, allow_nan=False))
    versions = {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__}
    machine = {"system": platform.system(), "processor": processor(), "threads": torch.get_num_threads()}
    return Result(experiment, settings, plain, date, round(time.monotonic() - began, 2), versions, machine, hash_program(experiment))


def save_result(result: Result, place: Path) -> Path:
    """Write the result, replacing an older one."""
    place.mkdir(parents=True, exist_ok=True)
    file = _file(result.experiment, place)
    write_json(file, result.as_data())
    return file


def load_result(experiment: Experiment, place: Path) -> Result | None:
    """The stored result of an experiment, or None."""
    file = _file(experiment, place)
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        settings = Settings(size=data["size"], seed=data["seed"], more=data.get("more", 1), minutes=data.get("minutes", 0.0))
        result = Result(experiment, settings, *(data[key] for key in ("measurements", "date", "duration", "versions", "machine", "source")))
        if result.fresh:
            _ = result.verdict.outcome
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"is no measurement of {experiment.name}; remove it, and measure again", file=file) from None
    return result


def satisfies(result: Result | None, settings: Settings) -> bool:
    """Whether a stored result is valid for these settings: same sources and seed, at least this size, decided or given this time."""
    return (
        result is not None
        and result.fresh
        and result.settings.seed == settings.seed
        and SIZES.index(result.settings.size) >= SIZES.index(settings.size)
        and (result.settings.minutes >= settings.minutes or not result.verdict.undecided)
    )


def measure_all(
    experiments: Iterable[Experiment], settings: Settings, place: Path, display: Display, *, again: bool = False
) -> list[Result]:
    """Run every experiment without a valid stored result; each result is stored at once."""
    check_writable(place)
    wanted, results = list(experiments), list[Result]()
    for done, experiment in enumerate(wanted):
        found = None if again else load_result(experiment, place)
        if found is None or not satisfies(found, settings):
            try:
                display.say(f"{experiment.name}: {experiment.title.en} ({done + 1} of {len(wanted)})")
                found = measure(experiment, settings, display)
            except KeyboardInterrupt:
                said = f"stopped during {experiment.name}; what was measured is kept in {place}, and the same command goes on from there"
                raise StoppedError(said, signal.SIGINT) from None
            save_result(found, place)
            display.say(f"  {found.verdict.outcome}, after {found.duration:.0f} s")
        results.append(found)
    return results


def measure_all_on(
    cluster: Cluster, experiments: Iterable[Experiment], settings: Settings, place: Path, display: Display, *, again: bool = False
) -> list[Result]:
    """The same on the workers of a cluster, side by side."""
    check_writable(place)
    wanted = list(experiments)
    missing = [one.name for one in wanted if again or not satisfies(load_result(one, place), settings)]
    for name, outcome in cluster.map_completed(partial(measure_remotely, settings), missing):
        write_json(place / f"{name}.json", outcome.get())
        display.say(f"{name}: measured")
    return [result for one in wanted if (result := load_result(one, place)) is not None]


def measure_remotely(settings: Settings, name: str) -> dict[str, Any]:
    """One experiment, on the worker of a cluster."""
    from attentif.lab.experiments import EXPERIMENTS

    return measure(EXPERIMENTS[name], settings, Silent()).as_data()


def check_writable(place: Path) -> None:
    """Refuse an output folder that cannot be written, before minutes of measuring."""
    if place.exists() and not place.is_dir():
        raise UsageError("is no folder; choose another place with --out", file=place)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be made: {str(error.strerror).lower()}; choose another place with --out", file=place) from None
    if not os.access(place, os.W_OK):
        raise UsageError("cannot be written to; choose another place with --out", file=place)


def _file(experiment: Experiment, place: Path) -> Path:
    return place / f"{experiment.name}.json"
