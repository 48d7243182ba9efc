"""A run is a folder.

    config.toml  README.md  tokenizer.json  task.json  metrics.jsonl
    checkpoints/  model.safetensors  manifest.json  results.json  report.html

A run of adapters has `adapter.safetensors` instead of `model.safetensors`, and its configuration names the base that they stand beside.
It appears with its configuration and tokenizers in one step, never half-made; from then on it can be resumed. `manifest.json` holds the
SHA-256 of every file: a run that has one is verified before it answers. `results.json` is written last: a run that has it is finished.
One that was trained only to choose a learning rate has `trial.json` instead, what it reached on validation: resumed, it is scored and
finished as any other.
"""

import hashlib
import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.config import read_toml
from attentif.errors import RunError, UsageError
from attentif.files import flush, is_abandoned, name_full_disk, render_json, write_text, writer_name
from attentif.text import Tokenizer, TokenizerConfig
from attentif.training.checkpoint import Checkpoints, parse_step
from attentif.training.lock import Lock
from attentif.training.manifest import (
    MANIFEST,
    NOT_READ_BY_MODELS,
    DamagedError,
    is_verification_on,
    read_manifest,
    verify_folder,
    write_manifest,
)
from attentif.training.metrics import Metrics

log = logging.getLogger("attentif")

RUNS = Path("runs")
TOKENIZER_FILES = {"tokenizer": "tokenizer.json", "target": "tokenizer.target.json"}


class RunFolder:
    """Paths of the files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.readme = path / "config.toml", path / "README.md"
        self.weights, self.adapter = path / "model.safetensors", path / "adapter.safetensors"
        self.results, self.report = path / "results.json", path / "report.html"
        self.trial = path / "trial.json"
        self.metrics = Metrics(path / "metrics.jsonl")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder; refuse anything else."""
        if not path.exists():
            sweep_temporary(path.parent)
        if not (path / "config.toml").is_file():
            what = "is not a run: it has no config.toml" if path.is_dir() else "no such run"
            raise RunError(what, file=path)
        return cls(path)

    @property
    def finished(self) -> bool:
        return self.results.is_file()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run's lock, and remove temporary files of killed writers."""
        with Lock(self.path / "lock"):
            for path in [*self.path.glob(".*.tmp"), *self.path.glob(".tmp*")]:  # ours, and those of safetensors
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.checkpoints().clean()
            yield

    def checkpoints(self, keep: int = 2) -> Checkpoints:
        return Checkpoints(self.path / "checkpoints", keep)

    def followed_weights(self, step: int) -> Path:
        """Where `train.follow` keeps the weights of a step."""
        return self.path / "followed" / f"step-{step:08}.safetensors"

    def weights_by_step(self) -> dict[int, Path]:
        """The weights of earlier steps that are there, by step: those kept by `train.follow`, and the checkpoints'."""
        found = {parse_step(path): path / "model.safetensors" for path in self.checkpoints().paths()}
        found |= {int(path.stem.removeprefix("step-")): path for path in (self.path / "followed").glob("step-*.safetensors")}
        return dict(sorted(found.items()))

    @property
    def sealed(self) -> bool:
        """Whether its weights are final, and listed with their checksums."""
        return (self.path / MANIFEST).is_file()

    def seal(self, last: Path, values: Mapping[str, Any]) -> None:
        """Finish the run: write the manifest, then the file `last`, which says that all is there."""
        text = render_json(values)
        write_manifest(self.path, more={last.name: hashlib.sha256(text.encode()).hexdigest()})
        write_text(last, text)

    def unseal(self) -> None:
        """Remove the manifest before files of the run are rewritten."""
        (self.path / MANIFEST).unlink(missing_ok=True)

    def require_manifest(self) -> None:
        """Raise RunError where nothing says what the files of this run were."""
        if not self.sealed:
            why = "it is not finished" if not self.finished else "it was made before runs had checksums, or the file was removed"
            raise RunError(f"has no {MANIFEST} to be verified by: {why}", file=self.path)

    def verify(self) -> None:
        """Raise DamagedError where a file that answers depend on is not the one that was written."""
        if not is_verification_on():
            return
        if not self.sealed:
            if self.finished and "format" in read_toml(self.config).values.get("made", {}):
                raise DamagedError("is missing: the run cannot be verified", file=self.path / MANIFEST)
            if self.finished:
                log.warning("%s was made before runs had checksums: its files are not verified", self.path)
            return
        try:
            verify_folder(self.path, skip=NOT_READ_BY_MODELS)
        except DamagedError as error:
            way_out = f"restore it, or take all files as they are: attentif verify {self.path} --accept"
            raise DamagedError(f"{error.message}; {way_out}", file=error.file) from None

    def latest_weights(self) -> Path:
        """The file of the run's weights: the final ones, or those of the newest intact checkpoint of an unfinished run."""
        if self.sealed or self.finished:
            files = read_manifest(self.path)["files"] if self.sealed else {}
            return self.adapter if self.adapter.name in files or (not files and self.adapter.is_file()) else self.weights
        for path in self.checkpoints().sound():
            return path / "model.safetensors"
        raise RunError("has no weights yet: it was stopped before its first checkpoint", file=self.path)

    def tokenizers(self, config: TokenizerConfig | None) -> dict[str, Tokenizer]:
        """Those of the run, as its configuration says; one at least where its task reads text."""
        if config is None:
            return {}
        found = {key: self.path / name for key, name in TOKENIZER_FILES.items()}
        return {key: config.load(path) for key, path in found.items() if key == "tokenizer" or path.is_file()}


def read_results(folder: RunFolder) -> dict[str, Any]:
    """Contents of `results.json`; empty if the run is not finished."""
    return _read(folder.results)


def read_trial(folder: RunFolder) -> dict[str, Any]:
    """Results of a finished run, else `trial.json`; empty where a trial is not over."""
    return read_results(folder) or _read(folder.trial)


def _read(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
    except (ValueError, TypeError):
        raise RunError("is damaged; remove it, and `attentif train --resume` writes it again", file=file) from None


def save_tokenizers(folder: Path, tokenizers: Mapping[str, Tokenizer]) -> None:
    for key, tokenizer in tokenizers.items():
        tokenizer.save(folder / TOKENIZER_FILES[key])


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that is created atomically: the file it is recognised by, and the advice where one exists."""

    name: str
    sign: str
    way_out: str


RUN = FolderKind("a run", "config.toml", "continue it with --resume, replace it with --force, or choose another place with --out")
EXPORT = FolderKind("a Hugging Face folder", "config.json", "replace it with --force, or choose another place")


def refuse_existing(out: Path | None, force: bool, kind: FolderKind = RUN) -> None:
    """Refuse an existing run without --force, and any other folder always, before any data is read."""
    if out is not None:
        sweep_temporary(out.parent)
    if out is None or not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / kind.sign).is_file():
        raise UsageError(f"exists and is not {kind.name}; choose another place for this one", file=out)
    if not force:
        raise UsageError(f"exists; {kind.way_out}", file=out)


def create(
    out: Path | None, name: str, fill: Callable[[Path], Any], *, force: bool = False, kind: FolderKind = RUN, seal: bool = False
) -> RunFolder:
    """A new run: `fill` writes its first files to a temporary folder, which then takes its name, `runs/<name>-<n>` by default.

    `seal` says that these are all files of the run, to be listed in its manifest."""
    refuse_existing(out, force, kind)
    parent = RUNS if out is None else out.parent
    parent.mkdir(parents=True, exist_ok=True)
    sweep_temporary(parent)
    temporary = Path(tempfile.mkdtemp(dir=parent, prefix=f".{out.name if out else name}.{writer_name()}.", suffix=".tmp"))
    temporary.chmod(0o755)  # mkdtemp makes folders that only their owner reads
    try:
        with name_full_disk(out or parent):
            fill(temporary)
            if seal:
                write_manifest(temporary)
            for path in temporary.iterdir():
                flush(path)
            flush(temporary)
        final = _take_next(temporary, parent, name) if out is None else _take(temporary, out, kind)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    flush(parent)
    return RunFolder(final)


def sweep_temporary(folder: Path) -> None:
    """Remove temporary folders of killed processes of this machine; restore a run that one of them was replacing."""
    if not folder.is_dir():
        return
    for path in folder.glob(".*.tmp"):
        match = re.fullmatch(r"\.(.+)\.(\d+@[A-Za-z0-9-]*)\.([^.]+)\.tmp", path.name)
        if match is None or not is_abandoned(match[2]):
            continue
        final = folder / match[1]
        if match[3] == "old" and not final.exists():
            path.rename(final)  # killed between its two renames
        else:
            shutil.rmtree(path, ignore_errors=True)


def _take_next(temporary: Path, parent: Path, name: str) -> Path:
    taken = [int(match[1]) for path in parent.iterdir() if (match := re.fullmatch(rf"{re.escape(name)}-(\d+)", path.name))]
    number = max(taken, default=0) + 1
    while (final := parent / f"{name}-{number}").exists():
        number += 1
    try:
        temporary.rename(final)
    except OSError:  # another run took the name since
        if final.exists():
            return _take_next(temporary, parent, name)
        raise
    return final


def _take(temporary: Path, final: Path, kind: FolderKind) -> Path:
    """Move the new run into place, over an older one that nobody is writing."""
    if not (final / kind.sign).is_file():
        temporary.rename(final)
        return final
    with Lock(final / "lock"):
        leaving = final.with_name(f".{final.name}.{writer_name()}.old.tmp")
        final.rename(leaving)
        temporary.rename(final)
    shutil.rmtree(leaving)
    return final
