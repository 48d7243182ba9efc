"""Cache keys of runs: a hash of configuration, data and program, by which other comparisons find a finished run.

The folder's name ends with the first digits of the key. Finished runs are listed in the cache by key; entries of runs that were moved,
changed or removed are ignored.
"""

import hashlib
import json
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from attentif.config import to_toml
from attentif.files import cache_folder, write_json
from attentif.lab.sources import hash_package
from attentif.training.backbone import find_backbone
from attentif.training.config import RunConfig
from attentif.training.rundir import RunFolder, create

DIGITS = 12


def digest(value: Any) -> str:
    """SHA-256 of plain values, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def program_version(plugins: Sequence[Path] = ()) -> dict[str, Any]:
    """What determines the numbers of a run besides configuration and data."""
    return {
        "sources": hash_package(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "plugins": [hashlib.sha256(path.read_bytes()).hexdigest() for path in plugins],
    }


@dataclass(frozen=True)
class RunSpec:
    """A run to be made: its configuration and its folder."""

    label: str  # "lstm-tiny, seed 1"
    stem: str  # of its folder's name
    within: Path
    config: RunConfig
    data: str  # SHA-256 of the data
    plugins: tuple[Path, ...] = ()
    trial: bool = False  # of a learning rate: judged on validation, without scores

    @cached_property
    def key(self) -> str:
        base = find_backbone(self.config)
        weights = None if base is None else base.digest
        config = to_toml(self.config.replace(made=None))
        return digest({"config": config, "data": self.data, "weights": weights, "program": program_version(self.plugins)})

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.within / f"{self.stem}-{self.key[:DIGITS]}")

    @property
    def done(self) -> bool:
        return self._is_done(self.folder)

    def _is_done(self, folder: RunFolder) -> bool:
        return folder.finished or (self.trial and folder.trial.is_file())

    @property
    def note(self) -> Path:
        return cache_folder() / ("trials" if self.trial else "runs") / f"{self.key}.json"

    def publish(self) -> None:
        """Add the run to the cache."""
        self.note.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.note, {"run": str(self.folder.path.resolve())})

    def fetch(self) -> Path | None:
        """Copy the run, without checkpoints, from another comparison; return its path, or None."""
        try:
            found = RunFolder(Path(json.loads(self.note.read_text(encoding="utf-8"))["run"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not self._is_done(found) or not found.path.name.endswith(self.key[:DIGITS]) or found.path == self.folder.path.resolve():
            return None
        skip = shutil.ignore_patterns("checkpoints", "lock", ".*")
        create(self.folder.path, self.stem, lambda path: shutil.copytree(found.path, path, dirs_exist_ok=True, ignore=skip))
        return found.path


class MeasurementFile:
    """A file of measurements by cache key. A damaged file counts as empty; without `written` it is read only."""

    def __init__(self, path: Path, *, written: bool = True) -> None:
        self.path, self.written = path, written
        try:
            self.values: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self.values = {}

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value
        if self.written:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, self.values)
