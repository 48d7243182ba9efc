"""The runs that a studio was opened on. A page names a run by its id; ids are looked up, never made into paths."""

import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import nn

from attentif import api
from attentif.config import read_toml
from attentif.errors import AttentifError, UsageError
from attentif.french import Lang
from attentif.serve.studio.language import localize_for
from attentif.training.imported import is_foreign
from attentif.training.rundir import RunFolder, read_results
from attentif.training.weights import read_weights
from attentif.view.words import metric

log = logging.getLogger("attentif")

OPEN_RUNS = 4  # models kept in memory
MOST_RUNS = 2000  # listed


@dataclass(frozen=True)
class RunEntry:
    """One run of the table."""

    id: str
    path: Path

    @property
    def modified(self) -> float:
        own = self.path / "results.json"
        config = self.path / ("config.toml" if (self.path / "config.toml").is_file() else "config.json")
        return (own if own.is_file() else config).stat().st_mtime


class Library:
    """Run folders below some roots, and the few that are open. One computation runs at a time: changes are made to shared models."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = [root.resolve() for root in roots]
        self.lock = threading.RLock()
        self.opened: OrderedDict[tuple[str, int | None], api.Run] = OrderedDict()

    def entries(self) -> dict[str, RunEntry]:
        """Every run by id, in the order of their names."""
        found: dict[str, RunEntry] = {}
        for root in self.roots:
            folders = [root] if _is_run(root) else sorted(path for path in _children(root) if _is_run(path))
            for path in folders[:MOST_RUNS]:
                name, number = path.name, 2
                while name in found:
                    name, number = f"{path.name}~{number}", number + 1
                found[name] = RunEntry(name, path)
        return found

    def entry(self, id: str) -> RunEntry:
        found = self.entries().get(id)
        if found is None:
            raise UsageError(f"there is no run {id!r} here")
        return found

    @contextmanager
    def run(self, id: str, step: int | None = None) -> Iterator[api.Run]:
        """A run, opened once, for one computation at a time; `step` opens the checkpoint of that step instead of the last weights."""
        with self.lock:
            entry, key = self.entry(id), (id, step)
            if key not in self.opened:
                run = api.load(entry.path)
                if step is not None:
                    self._go_back(run, step)
                self.opened[key] = run
                while len(self.opened) > OPEN_RUNS:
                    self.opened.popitem(last=False)
            self.opened.move_to_end(key)
            yield self.opened[key]

    def forget(self, id: str) -> None:
        """Read a run again from its folder the next time: it went on."""
        with self.lock:
            for key in [key for key in self.opened if key[0] == id]:
                del self.opened[key]

    def _go_back(self, run: api.Run, step: int) -> None:
        weights = run.folder.weights_by_step().get(step)
        if weights is None or not isinstance(run.model, nn.Module):
            raise UsageError(f"the weights after step {step} were not kept")
        read_weights(weights, run.model)


def _is_run(path: Path) -> bool:
    return path.is_dir() and ((path / "config.toml").is_file() or is_foreign(path))


def _children(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []


def steps_of(path: Path) -> list[int]:
    """Steps whose weights were kept, the first first."""
    return list(RunFolder(path).weights_by_step())


def summarise(entry: RunEntry, lang: Lang = "en") -> dict[str, Any]:
    """A line of the table, read from the folder alone: no weights are opened."""
    line: dict[str, Any] = {"id": entry.id, "modified": entry.modified, "state": "imported", "error": None, "scores": []}
    try:
        if (entry.path / "results.json").is_file():
            return line | _read_finished(entry.path, _stamp(entry.path))
        return line | _read_line(entry.path)
    except (AttentifError, OSError, ValueError) as error:
        log.warning("%s: %s", entry.path, error)
        return line | {"task": "", "model": "", "recipe": "", "state": "damaged", "error": localize_for(lang, str(error))}


def _stamp(path: Path) -> tuple[int, ...]:
    return tuple((path / name).stat().st_mtime_ns for name in ("results.json", "config.toml") if (path / name).is_file())


@lru_cache(MOST_RUNS)
def _read_finished(path: Path, stamp: tuple[int, ...]) -> dict[str, Any]:  # noqa: ARG001
    """The line of a run that has its results, kept until its files change: a folder of hundreds is listed at once."""
    return _read_line(path)


def _read_line(path: Path) -> dict[str, Any]:
    if not (path / "config.toml").is_file():
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        return {"task": "imported", "model": str(config.get("model_type", "")), "recipe": ""}
    folder, values = RunFolder(path), read_toml(path / "config.toml").values
    results = read_results(folder)
    kind = (values.get("task") or values.get("fit") or {}).get("kind", "")
    base = (values.get("model") or {}).get("base") or ""
    line = {"task": str(kind), "model": str(base or kind), "recipe": str((values.get("made") or {}).get("recipe", ""))}
    return line | _read_measures(folder, results, trained="train" in values, fitted="fit" in values)


def _read_measures(folder: RunFolder, results: dict[str, Any], *, trained: bool, fitted: bool) -> dict[str, Any]:
    chosen = results.get("metric")
    scores, intervals = results.get("scores") or {}, results.get("intervals") or {}
    order = [str(chosen)] if chosen in scores else list(scores)[:1]
    cost = results.get("cost") or {}
    parameters = cost.get("parameters")
    state = "finished" if results else "stopped" if trained else "fitted" if fitted else "imported"
    if state == "stopped" and _is_locked(folder.path):
        state = "running"
    return {
        "state": state,
        "scores": [_score(key, scores[key], intervals.get(key)) for key in order],
        "seconds": cost.get("seconds"),
        "parameters": sum(parameters.values()) if isinstance(parameters, dict) else None,
        "examples": results.get("examples"),
    }


def _score(key: str, value: float | None, interval: Any) -> dict[str, Any]:
    known = metric(key)
    return {"metric": key, "name": {"fr": known.name.fr, "en": known.name.en}, "share": known.share, "value": value, "interval": interval}


def _is_locked(path: Path) -> bool:
    """Whether the process that last wrote this run still lives. The lock itself is not tried: that could turn a writer away."""
    try:
        os.kill(int((path / "lock").read_text(encoding="ascii")), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
