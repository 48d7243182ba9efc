"""Choices that are made by a short measurement, once on a machine, and remembered in the cache folder.

A choice is kept under what it depends on: the processor or GPU, torch's version and the number of threads. A file that is damaged or cannot
be written costs a new measurement, nothing else.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from attentif.files import cache_folder, write_json


@dataclass(frozen=True)
class FastestForm:
    """What was fastest."""

    name: str
    seconds: dict[str, float]
    remembered: bool  # measured earlier

    def ratio(self, other: str) -> float:
        """How many times as long another one took."""
        return self.seconds[other] / self.seconds[self.name]


def choose_fastest(what: str, device: torch.device, measure: Callable[[], dict[str, float]], *, prefer: str, gain: float) -> FastestForm:
    """The fastest contestant; `prefer` keeps its place against any that is not `gain` times as fast."""
    path = cache_folder() / "measured.json"
    key = f"{what}: {describe_machine(device)}"
    known = _read(path)
    seconds = known.get(key)
    if seconds is None or prefer not in seconds:
        seconds, remembered = measure(), False
        _write(path, known | {key: seconds})
    else:
        remembered = True
    best = min(seconds, key=lambda name: seconds[name])
    return FastestForm(best if seconds[prefer] >= gain * seconds[best] else prefer, seconds, remembered)


def describe_machine(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    return f"{_processor()}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, UnicodeDecodeError):
        return platform.processor() or platform.machine()


def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    sound = lambda entry: isinstance(entry, dict) and entry and all(isinstance(s, float) and s > 0 for s in entry.values())
    return {key: entry for key, entry in found.items() if sound(entry)}


def _write(path: Path, known: dict[str, dict[str, float]]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path, known)
    except OSError:
        return
