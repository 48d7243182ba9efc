"""List the runs of a folder with what helps to choose among them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attentif.config import read_toml
from attentif.data.in_memory import IN_MEMORY, is_frame
from attentif.errors import AttentifError
from attentif.training.rundir import RunFolder, read_results
from attentif.view.words import Text, Words, metric


@dataclass(frozen=True)
class ListedRun:
    """One line of `attentif list runs`."""

    path: str
    kind: str  # the task, or what was fitted
    score: Words  # the main one, on the test split
    data: str
    date: str
    state: str  # finished, unfinished, damaged


def list_runs(folder: Path) -> list[ListedRun]:
    """The runs directly in a folder, the newest first. One that cannot be read is listed as damaged."""
    places = [path.parent for path in folder.glob("*/config.toml")] if folder.is_dir() else []
    return [_describe(path) for path in sorted(places, key=lambda path: -(path / "config.toml").stat().st_mtime)]


def _describe(path: Path) -> ListedRun:
    run = RunFolder(path)
    last = run.results if run.finished else run.config
    date = datetime.fromtimestamp(last.stat().st_mtime, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    try:
        values, results = read_toml(run.config).values, read_results(run)
    except AttentifError:
        return ListedRun(str(path), "?", "", "", date, "damaged")
    kind = str((values.get("task") or values.get("fit") or {}).get("kind", "?"))
    state = "finished" if run.finished else "imported" if "train" not in values else "unfinished"
    return ListedRun(str(path), kind, _score(results), _data(values.get("data") or {}), date, state)


def _score(results: Mapping[str, Any]) -> Words:
    main = results.get("metric")
    value = results.get("scores", {}).get(main)
    if value is None or main is None:
        return ""
    return Text("{name} {value}", "{name} {value}").with_(name=metric(main).name, value=metric(main).write(value))


def _data(data: Mapping[str, Any]) -> str:
    files = data.get("train") or data.get("name") or ""
    named = [str(file) for file in files] if isinstance(files, list) else [str(files)] if files else []
    return ", ".join(IN_MEMORY if is_frame(file) else Path(file).name for file in named)
