"""Checkpoints that survive a power cut, and say so when they did not.

    checkpoints/step-00000120/      model.safetensors  optimizer.safetensors  ...  state.json  manifest.json

A checkpoint is written to a temporary folder, every file and the folder itself flushed to the disk, then renamed: it is there as a whole
or not at all. `manifest.json` holds the SHA-256 of each file and of itself (`manifest.py`). Old checkpoints go only once the new one is in
place. One that does not match its manifest is set aside as `*.damaged`, and the one before is used.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from attentif.errors import RunError
from attentif.files import flush
from attentif.training.manifest import MANIFEST, DamagedError, read_manifest, verify_folder, write_manifest
from attentif.training.weights import read_tensors, write_tensors

STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on: tensors by file, and plain values."""

    step: int
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # "model" -> model.safetensors


class Checkpoints:
    """The folder of a run's checkpoints. One process writes it, the one that holds the run's lock."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def paths(self) -> list[Path]:
        """Every checkpoint, sound or not, the newest first."""
        if not self.folder.is_dir():
            return []
        return sorted((path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{8,}", path.name)), key=parse_step, reverse=True)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write, flush, rename; then forget the oldest."""
        final = self.folder / f"step-{checkpoint.step:08}"
        temporary = self.folder / f".{final.name}.{os.getpid()}.tmp"
        temporary.mkdir(parents=True)
        try:
            write(temporary, checkpoint)
            temporary.rename(final)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, OSError | SafetensorError):
                raise RunError(f"the checkpoint cannot be written ({error}); the one before is untouched", file=final) from None
            raise
        flush(self.folder)
        for old in self.paths()[self.keep :]:
            self._remove(old)
        return final

    def latest(self, say: Callable[[str], None]) -> Path | None:
        """The newest sound checkpoint; damaged ones that are newer are set aside, and said."""
        newest = next(self.sound(), None)
        for path in self.paths():
            if newest is None or parse_step(path) > parse_step(newest):
                say(f"{path} is damaged; it is now {quarantine(path).name}, and the one before is used")
        return newest

    def sound(self) -> Iterator[Path]:
        """The checkpoints that are whole, the newest first."""
        for path in self.paths():
            try:
                verify(path)
            except DamagedError:
                continue
            yield path

    def clean(self) -> None:
        """Remove what a writer that was killed left half-written or half-removed."""
        for path in self.folder.glob(".*.tmp") if self.folder.is_dir() else ():
            shutil.rmtree(path)

    def _remove(self, path: Path) -> None:
        """Renamed first: a removal that is cut short must not look like a damaged checkpoint."""
        leaving = path.with_name(f".{path.name}.old.tmp")
        path.rename(leaving)
        shutil.rmtree(leaving)


def parse_step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def write(folder: Path, checkpoint: Checkpoint) -> None:
    for name, tensors in checkpoint.tensors.items():
        write_tensors(folder / f"{name}.safetensors", tensors)
    (folder / STATE).write_text(json.dumps(checkpoint.state, indent=1), encoding="utf-8")
    for path in folder.iterdir():
        flush(path)
    write_manifest(folder, step=checkpoint.step)


def verify(path: Path) -> None:
    """Raise DamagedError unless every byte is the one that was written."""
    if read_manifest(path).get("step") != parse_step(path):
        raise DamagedError("is damaged", file=path / MANIFEST)
    verify_folder(path)


def read(path: Path) -> Checkpoint:
    """A checkpoint that was verified."""
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    return Checkpoint(parse_step(path), state, {file.stem: read_tensors(file) for file in path.glob("*.safetensors")})


def quarantine(path: Path) -> Path:
    """Keep a damaged checkpoint for whoever wants to look, under a name that is not used again."""
    number, target = 1, path.with_name(f"{path.name}.damaged")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.damaged-{number}")
    path.rename(target)
    flush(path.parent)
    return target
