"""Checkpoints that survive a power cut, and detect damage.

    checkpoints/step-00000120/      model.safetensors  optimizer.safetensors  ...  state.json  manifest.json

Processes that hold shards write one file each, `model-00001-of-00004.safetensors`; any number of processes reads them again.

A checkpoint is written to a temporary folder, every file and the folder itself flushed to the disk, then renamed: it is there as a whole
or not at all. `manifest.json` holds the SHA-256 of each file and of itself (`manifest.py`). Old checkpoints go only once the new one is in
place. One that does not match its manifest is set aside as `*.damaged`, and the one before is used.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from attentif.errors import RunError
from attentif.files import flush
from attentif.training.distributed import Ranks
from attentif.training.manifest import MANIFEST, DamagedError, read_manifest, sha256, verify_folder, write_manifest
from attentif.training.weights import Rows, piece_name, read_tensors, stem_of, write_tensors

STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to resume: tensors by file, and plain values."""

    step: int
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # "model" -> model.safetensors


class Checkpoints:
    """The folder of a run's checkpoints. One process writes it, the one that holds the run's lock."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def paths(self) -> list[Path]:
        """Every checkpoint, intact or not, newest first."""
        if not self.folder.is_dir():
            return []
        return sorted((path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{8,}", path.name)), key=parse_step, reverse=True)

    def save(self, checkpoint: Checkpoint, ranks: Ranks = Ranks()) -> Path:
        """Write, flush, rename, then delete the oldest. Each rank writes its shards; rank 0 writes the rest."""
        final = self.folder / f"step-{checkpoint.step:08}"
        temporary = self.folder / ranks.broadcast(f".{final.name}.{os.getpid()}.tmp")
        try:
            self._write(temporary, final, checkpoint, ranks)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return final

    def _write(self, temporary: Path, final: Path, checkpoint: Checkpoint, ranks: Ranks) -> None:
        digests, problem = {}, ""
        try:
            temporary.mkdir(parents=True, exist_ok=True)
            digests = write_pieces(temporary, checkpoint.tensors, ranks)
        except (OSError, SafetensorError) as error:
            problem = str(error)
        found = ranks.gather([digests, problem])
        problem = next((told for _, told in found if told), "")
        if ranks.main and not problem:
            try:
                write_state(temporary, checkpoint, {name: digest for own, _ in found for name, digest in own.items()})
                temporary.rename(final)
                flush(self.folder)
                for old in self.paths()[self.keep :]:
                    self._remove(old)
            except (OSError, SafetensorError) as error:
                problem = str(error)
        if problem := ranks.broadcast(problem):
            raise RunError(f"the checkpoint cannot be written ({problem}); the one before is untouched", file=final)

    def latest(self, say: Callable[[str], None]) -> Path | None:
        """The newest intact checkpoint; newer damaged ones are quarantined and reported."""
        newest = next(self.sound(), None)
        for path in self.paths():
            if newest is None or parse_step(path) > parse_step(newest):
                say(f"{path} is damaged; it is now {quarantine(path).name}, and the one before is used")
        return newest

    def sound(self) -> Iterator[Path]:
        """The intact checkpoints, newest first."""
        for path in self.paths():
            try:
                verify(path)
            except DamagedError:
                continue
            yield path

    def clear(self) -> None:
        """Remove every checkpoint."""
        for path in self.paths():
            self._remove(path)

    def clean(self) -> None:
        """Remove what a killed writer left half-written or half-removed."""
        for path in self.folder.glob(".*.tmp") if self.folder.is_dir() else ():
            shutil.rmtree(path)

    def _remove(self, path: Path) -> None:
        """Renamed first: a removal that is cut short must not look like a damaged checkpoint."""
        leaving = path.with_name(f".{path.name}.old.tmp")
        path.rename(leaving)
        shutil.rmtree(leaving)


def parse_step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def write_pieces(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], ranks: Ranks) -> dict[str, str]:
    """Write this process's tensors, all of them or its shards; return the SHA-256 of its files."""
    files = [folder / piece_name(stem, ranks.rank + 1, ranks.world) for stem in tensors]
    for file, own in zip(files, tensors.values(), strict=True):
        write_tensors(file, own)
        flush(file)
    return {file.name: sha256(file) for file in files}


def write_state(folder: Path, checkpoint: Checkpoint, digests: Mapping[str, str]) -> None:
    """The plain values, then the manifest."""
    (folder / STATE).write_text(json.dumps(checkpoint.state, indent=1), encoding="utf-8")
    flush(folder / STATE)
    write_manifest(folder, more=digests, step=checkpoint.step)


def verify(path: Path) -> None:
    """Raise DamagedError unless every byte is the one that was written."""
    if read_manifest(path).get("step") != parse_step(path):
        raise DamagedError("is damaged", file=path / MANIFEST)
    verify_folder(path)


def read(path: Path, rows: Rows | None = None) -> Checkpoint:
    """Verify and read a checkpoint; `rows` says which rows of each tensor are needed."""
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    stems = sorted({stem_of(file) for file in path.glob("*.safetensors")})
    return Checkpoint(parse_step(path), state, {stem: read_tensors(path / f"{stem}.safetensors", rows) for stem in stems})


def quarantine(path: Path) -> Path:
    """Rename a damaged checkpoint so that it is kept for inspection but never used."""
    number, target = 1, path.with_name(f"{path.name}.damaged")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.damaged-{number}")
    path.rename(target)
    flush(path.parent)
    return target


def is_followed(step: int) -> bool:
    """Whether `train.follow` keeps the weights after a step: 0, and 1 and 3 times the powers of ten."""
    return not step or str(step).rstrip("0") in ("1", "3")
