"""Accuracy against the number of labelled examples, with and without pre-training.

    attentif curve reviews task.linear=none --labels 100,500,2000,all --from runs/masked-1

Each system, number of labels and seed is a run of its own in the folder of the curve; the seed decides the weights and which examples keep
their labels. Called again, runs that are finished are read, the one that was stopped goes on, and the rest follow. A recipe with a
`[pretrain]` table is measured with it and without: its first stage is trained once, on all texts of the training split (they need no
labels for that), with the first run of the curve, and the others begin with its base model.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.config import Layer, to_toml
from attentif.errors import UsageError
from attentif.files import working_folder, write_json, write_text
from attentif.tasks.seeds import mean
from attentif.training.config import RunConfig
from attentif.training.load import Source, load_run_config, require_own_data, source_name
from attentif.training.pretrain import STAGE
from attentif.training.progress import Display
from attentif.training.run import resume, train
from attentif.training.rundir import RUNS, RunFolder
from attentif.view.words import LANGS, Text, Words, say

ALL = 0  # the labels of every training example
WITHOUT, WITH = Text("sans pré-entraînement", "without pre-training"), Text("avec pré-entraînement", "with pre-training")
FILE, PLAN = "curve.json", "curve.toml"


@dataclass(frozen=True)
class CurvePlan:
    """A recipe with its options, runs to start from, numbers of labels, seeds."""

    source: Source
    layers: Sequence[Layer]
    begins: Sequence[Path]
    labels: Sequence[int]
    seeds: Sequence[int]
    out: Path | None = None

    @property
    def folder(self) -> Path:
        return self.out or RUNS / f"{source_name(self.source)}-curve"


@dataclass(frozen=True)
class One:
    """One run of a curve."""

    system: Words
    name: str  # of its folder
    labels: int
    seed: int
    config: RunConfig


def runs_of(plan: CurvePlan) -> list[One]:
    """Every run of the curve in order; the one with pre-training precedes those that start from it."""
    recipe = load_run_config(plan.source, plan.layers)
    alone = recipe.replace(pretrain=None)
    found = [*_runs(plan, WITHOUT, "without", alone)]
    if recipe.pretrain is not None:
        first = plan.folder / f"with-all-{plan.seeds[0]}"
        base = first / STAGE
        later = _load_start(plan, base) if RunFolder(base).finished else None
        found += [One(WITH, first.name, ALL, plan.seeds[0], _with(recipe, ALL, plan.seeds[0]))]
        found += [one for one in _runs(plan, WITH, "with", later or recipe) if one.name != first.name]
    for run in plan.begins:
        found += _runs(plan, Text(f"à partir de {run.name}", f"from {run.name}"), f"from-{run.name}", _load_start(plan, run))
    return found


def _load_start(plan: CurvePlan, run: Path) -> RunConfig:
    return load_run_config(plan.source, [*plan.layers, Layer({"model": {"from": str(run)}}, "option --from")]).replace(pretrain=None)


def _runs(plan: CurvePlan, system: Words, name: str, config: RunConfig) -> Iterator[One]:
    for labels in plan.labels:
        for seed in plan.seeds:
            yield One(system, f"{name}-{labels or 'all'}-{seed}", labels, seed, _with(config, labels, seed))


def _with(config: RunConfig, labels: int, seed: int) -> RunConfig:
    return config.replace(data=config.data.replace(limit=labels, limit_seed=seed), train=config.train.replace(seed=seed))


def measure(plan: CurvePlan, display: Display) -> dict[str, Any]:
    """Train the missing runs; return the curve as plain data, written after each run."""
    runs = runs_of(plan)  # contradictions are refused before anything is written
    require_own_data(plan.source, runs[0].config.data)
    count = len(runs)
    said = _check_folder(plan)
    with working_folder(plan.folder, worth=lambda: any(plan.folder.glob("*/config.toml"))):
        write_text(plan.folder / PLAN, said)
        for number in range(count):
            one = runs_of(plan)[number]  # read again: the first stage may have come to be
            folder = RunFolder(plan.folder / one.name)
            if not folder.finished:
                display.say(f"run {number + 1} of {count}: {say(one.system, 'en')}, {one.labels or 'all'} labels, seed {one.seed}")
                if folder.config.is_file():
                    resume(folder.path, display=display)
                else:
                    train(one.config, name=source_name(plan.source), out=folder.path, display=display)
                gather_curve(plan)
        curve = gather_curve(plan)
    most = max((point["labels"] for line in curve["lines"] for point in line["points"]), default=0)
    for labels in [number for number in plan.labels if number > most]:
        display.say(f"there are not {labels:,} labelled examples to train on: that point is left out")
    return curve


def _check_folder(plan: CurvePlan) -> str:
    """What the folder is for, as TOML. Two curves are not mixed in one; numbers of labels and seeds may be added."""
    said = to_toml(load_run_config(plan.source, plan.layers))
    file = plan.folder / PLAN
    if file.is_file() and file.read_text(encoding="utf-8") != said:
        raise UsageError("was started with another recipe or other options; choose another place with --out", file=plan.folder)
    if not file.is_file() and plan.folder.exists() and (not plan.folder.is_dir() or any(plan.folder.iterdir())):
        raise UsageError("exists and is not a curve; choose another place with --out", file=plan.folder)
    return said


def gather_curve(plan: CurvePlan) -> dict[str, Any]:
    """The finished runs as curves, one a system and one a baseline; written to `curve.json`."""
    scores: dict[str, dict[int, list[float]]] = {}
    names: dict[str, tuple[Words, bool]] = {}
    metric = ""
    for one in runs_of(plan):
        file = RunFolder(plan.folder / one.name).results
        if one.labels not in plan.labels or not file.is_file():
            continue
        results = json.loads(file.read_text(encoding="utf-8"))
        metric, labels = results["metric"], results["trained_on"]
        if labels < one.labels:
            continue
        systems = [(one.system, True, results)]
        if one.system == WITHOUT:  # the same for all systems, but for the vocabulary
            systems += [(Text(**rival["name"]), False, rival) for rival in results["baselines"]]
        for name, ours, found in systems:
            if (score := found["scores"].get(metric)) is not None:
                names[say(name, "en")] = name, ours
                scores.setdefault(say(name, "en"), {}).setdefault(labels, []).append(score)
    lines = [
        {
            "name": {lang: say(name, lang) for lang in LANGS},
            "ours": ours,
            "points": [{"labels": labels, "values": values, **spread(values)} for labels, values in sorted(scores[key].items())],
        }
        for key, (name, ours) in sorted(names.items(), key=lambda item: not item[1][1])
    ]
    curve = {"recipe": source_name(plan.source), "metric": metric, "lines": lines}
    write_json(plan.folder / FILE, curve)
    return curve


def spread(values: Sequence[float]) -> dict[str, Any]:
    """The mean over seeds and its 95 % interval, as JSON has them."""
    found = mean(values)
    low, high = found.bounds
    return {"mean": found.value, "low": low, "high": high}
