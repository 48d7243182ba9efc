"""Measurements as they are kept: one JSON file an experiment, with its date, versions and machine, whole or not there.

Results are kept by what they depend on: the size, the seed, and the sources of the program. `measure_all` measures what is missing or was
measured otherwise, so that it continues where it was stopped.
"""

import hashlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attentif.errors import RunError, UsageError
from attentif.files import write_json
from attentif.lab.experiment import SIZES, Experiment, Measurements, Settings, Verdict, words
from attentif.lab.machine import processor
from attentif.lab.sources import hash_package
from attentif.training.progress import Display
from attentif.training.rundir import RUNS
from attentif.training.signals import StoppedError
from attentif.version import __version__

PLACE = RUNS / "lab"


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
        """Worked out from the numbers whenever it is asked for: what the file says of it is for other readers."""
        return self.experiment.verdict(self.measurements)

    @property
    def fresh(self) -> bool:
        """Measured by the program as it now is."""
        return self.source == hash_program(self.experiment)

    def as_data(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "claim": words(self.experiment.claim),
            "verdict": self.verdict.as_data(),
            "choices": [words(choice) for choice in self.experiment.choices],
            "size": self.settings.size,
            "seed": self.settings.seed,
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
    """Measure now."""
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


def keep(result: Result, place: Path) -> Path:
    """Write it down, in place of the one before."""
    place.mkdir(parents=True, exist_ok=True)
    file = _file(result.experiment, place)
    write_json(file, result.as_data())
    return file


def kept(experiment: Experiment, place: Path) -> Result | None:
    """The last measurement of an experiment, if there is one."""
    file = _file(experiment, place)
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        settings = Settings(size=data["size"], seed=data["seed"])
        result = Result(experiment, settings, *(data[key] for key in ("measurements", "date", "duration", "versions", "machine", "source")))
        if result.fresh:
            _ = result.verdict.outcome
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"is no measurement of {experiment.name}; remove it, and measure again", file=file) from None
    return result


def serves(result: Result | None, settings: Settings) -> bool:
    """A kept measurement answers what is asked: the same program, the same seed, at least that size."""
    return (
        result is not None
        and result.fresh
        and result.settings.seed == settings.seed
        and SIZES.index(result.settings.size) >= SIZES.index(settings.size)
    )


def measure_all(
    experiments: Iterable[Experiment], settings: Settings, place: Path, display: Display, *, again: bool = False
) -> list[Result]:
    """Every experiment, each kept as soon as it is measured; those that are there already are read."""
    ready(place)
    wanted, results = list(experiments), list[Result]()
    for done, experiment in enumerate(wanted):
        found = None if again else kept(experiment, place)
        if found is None or not serves(found, settings):
            try:
                display.say(f"{experiment.name}: {experiment.title.en} ({done + 1} of {len(wanted)})")
                found = measure(experiment, settings, display)
            except KeyboardInterrupt:
                said = f"stopped during {experiment.name}; what was measured is kept in {place}, and the same command goes on from there"
                raise StoppedError(said, signal.SIGINT) from None
            keep(found, place)
            display.say(f"  {found.verdict.outcome}, after {found.duration:.0f} s")
        results.append(found)
    return results


def ready(place: Path) -> None:
    """Minutes of measuring are not to be lost for want of a place to keep what came out."""
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
