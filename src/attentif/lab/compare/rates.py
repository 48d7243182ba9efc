"""The learning rate of each model: given, the recipe's, or found by the same small search for all.

A trial is a run of its own, of a stated share of the length of a whole one, with the first seed; rates are judged by the loss on
validation at its end, for a score is often still at 0, or at chance, when a trial is over: all rates would look alike. Where a task has
no loss, by its score. The test split is not looked at. Of losses that a short run of one seed cannot tell apart the smallest rate is
taken, for a large one breaks a long run sooner than a short one. A rate at which training breaks down is a trial that failed, no more.
Where the best rate of a model stands at the edge of what it was tried with, the next one beyond is tried too, some times at most.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.lab.compare.cache_key import RunSpec
from attentif.lab.compare.plan import Planned, Sized
from attentif.lab.compare.suite import SearchConfig
from attentif.training.config import TrainConfig
from attentif.training.rundir import read_trial

PLACE = "search"
LOSS = "loss"
ALIKE = 1.01  # losses whose ratio is below it say nothing
EXTENSIONS = 3  # rates at most that are tried beyond the grid for a model whose best one stands at its edge


@dataclass(frozen=True)
class RateTrial:
    """One rate for one model, with the recipe's warm-up or another one."""

    model: str
    lr: float
    wanted: RunSpec
    warmup: float | None = None  # None: the recipe's


def list_trials(
    planned: Planned, folder: Path, plugins: Sequence[Path], beyond: Mapping[str, Sequence[float]], chosen: Mapping[str, float | None]
) -> list[RateTrial]:
    """Every short run of the search; none where nothing is searched.

    `beyond`: rates outside the grid, by model; `chosen`: the rate at which other warm-ups are tried, of models whose rate is known.
    """
    search = planned.part.lr
    if not isinstance(search, SearchConfig):
        return []
    found = []
    for model in planned.models:
        rates = sorted({*search.rates, *beyond.get(model.name, ())}) if model.lr is None else []
        tried: list[tuple[float, float | None]] = [(rate, None) for rate in rates]
        if (best := chosen.get(model.name)) is not None:
            tried += [(best, warmup) for warmup in search.warmups if warmup != model.config.train.warmup]
        for rate, warmup in tried:
            train = with_rate(shorten(model.config.train, search.share), rate, planned.part.seeds[0], warmup)
            label, stem = f"{planned.part.name}: {model.name}, rate {rate:g}", f"{model.name}-{rate:g}"
            if warmup is not None:
                label, stem = f"{label}, warm-up {warmup:g}", f"{stem}-{warmup:g}"
            config = model.config.replace(train=train)
            wanted = RunSpec(label, stem, folder / PLACE, config, planned.data, tuple(plugins), trial=True)
            found.append(RateTrial(model.name, rate, wanted, warmup))
    return found


def shorten(train: TrainConfig, share: float) -> TrainConfig:
    """A share of the run's length, with the schedule of a whole one; scored at its end."""
    steps = max(1, round(share * train.steps)) if train.steps else 0
    scaled = {"epochs": share * train.epochs, "steps": steps, "min_steps": round(share * train.min_steps), "minutes": share * train.minutes}
    every = train.eval_every if isinstance(train.eval_every, float) else max(1, round(share * train.eval_every))
    return train.replace(**scaled, eval_every=share * every if isinstance(every, float) else every)


def record_search(
    planned: Planned, found: Sequence[RateTrial], failed: Mapping[str, str], faults: Collection[str], root: Path
) -> dict[str, Any] | None:
    """All trials as plain data, and the rate chosen for each model: None where training broke down at every rate, and where a trial could
    not be completed (`faults`), for a search that tries fewer rates than that of the others is not the same search."""
    search = planned.part.lr
    if not isinstance(search, SearchConfig):
        return None
    ended = [read_trial(trial.wanted.folder) for trial in found]
    metric = choose_metric(ended, planned.metric)
    rows = []
    for trial, results in zip(found, ended, strict=True):
        row = {
            "model": trial.model,
            "lr": trial.lr,
            "warmup": trial.warmup,
            "score": _score(results, metric),
            "steps": results.get("steps"),
        }
        path = trial.wanted.folder.path.relative_to(root)
        rows.append(row | {"failed": failed.get(trial.wanted.key), "run": path.as_posix()})
    chosen: dict[str, float | None] = {}
    warmups: dict[str, float | None] = {}  # None: the recipe's
    choose = lambda tried, key: lowest_loss(tried, key) if metric == LOSS else best_value(tried, planned.higher_is_better, key)
    for model in dict.fromkeys(trial.model for trial in found):
        whole = not any(trial.wanted.key in faults for trial in found if trial.model == model)
        own = [row for row in rows if row["model"] == model]
        chosen[model] = choose([row for row in own if row["warmup"] is None], "lr") if whole else None
        if any(row["warmup"] is not None for row in own):
            recipe = next(one.config.train.warmup for one in planned.models if one.name == model)
            named = [row | {"warmup": recipe} if row["warmup"] is None else row for row in own if row["lr"] == chosen[model]]
            best = choose(named, "warmup")
            warmups[model] = None if best == recipe else best
    tried = sorted({trial.lr for trial in found} | set(search.rates))
    made = {"rates": tried, "share": search.share, "seed": planned.part.seeds[0], "metric": metric}
    return made | {"trials": rows, "chosen": chosen, "warmups": warmups}


def next_rates(grid: Sequence[float], record: Mapping[str, Any]) -> dict[str, float]:
    """The next rate beyond the grid for each model whose chosen one is at the edge of those that it was tried with."""
    ratio = (max(grid) / min(grid)) ** (1 / (len(grid) - 1))
    found = {}
    for model, chosen in record["chosen"].items():
        tried = [row["lr"] for row in record["trials"] if row["model"] == model]
        if chosen is not None and len(tried) < len(grid) + EXTENSIONS and chosen in (min(tried), max(tried)):
            found[model] = float(f"{chosen * (ratio if chosen == max(tried) else 1 / ratio):.2g}")
    return found


def choose_metric(ended: Sequence[Mapping[str, Any]], metric: str) -> str:
    """The loss, where all trials that are over have one; else the metric of the task."""
    return LOSS if all(LOSS in results["valid"] for results in ended if results) else metric


def lowest_loss(rows: Sequence[Mapping[str, Any]], key: str = "lr") -> float | None:
    """The smallest rate (or warm-up) of those whose loss is the lowest, or cannot be told from it."""
    losses = {row[key]: row["score"] for row in rows if row["score"] is not None}
    return min((value for value, loss in losses.items() if loss <= ALIKE * min(losses.values())), default=None)


def best_value(rows: Sequence[Mapping[str, Any]], higher_is_better: bool, key: str = "lr") -> float | None:
    """The rate (or warm-up) of the best score; of several, the smallest."""
    scored = [row for row in rows if row["score"] is not None]
    sign = -1 if higher_is_better else 1
    return min(scored, key=lambda row: (sign * row["score"], row[key]))[key] if scored else None


def _score(results: Mapping[str, Any], metric: str) -> float | None:
    value = results.get("valid", {}).get(metric)
    return value if value is not None and math.isfinite(value) else None


def rate_of(model: Sized, planned: Planned, search: Mapping[str, Any] | None) -> tuple[float | None, str]:
    """The rate that a model is trained with, and where it comes from."""
    if model.lr is not None:
        return model.lr, "given"
    if search is not None:
        return search["chosen"].get(model.name), "search"
    if isinstance(planned.part.lr, float):
        return planned.part.lr, "given"
    return model.config.train.lr, "recipe"


@dataclass(frozen=True)
class FullRun:
    """One model with one seed, at its rate."""

    model: Sized
    seed: int
    wanted: RunSpec


def list_runs(
    planned: Planned, rates: Mapping[str, float], warmups: Mapping[str, float | None], folder: Path, plugins: Sequence[Path]
) -> list[FullRun]:
    """Every model with every seed, at its rate; seed by seed, so that a comparison that is stopped has compared something."""
    found = []
    for seed in planned.part.seeds:
        for model in planned.models:
            if model.name in rates:
                label = f"{planned.part.name}: {model.name}, seed {seed}"
                config = model.config.replace(train=with_rate(model.config.train, rates[model.name], seed, warmups.get(model.name)))
                found.append(FullRun(model, seed, RunSpec(label, f"{model.name}-{seed}", folder, config, planned.data, tuple(plugins))))
    return found


def with_rate(train: TrainConfig, rate: float, seed: int, warmup: float | None) -> TrainConfig:
    return train.replace(lr=rate, seed=seed, **({} if warmup is None else {"warmup": warmup}))
