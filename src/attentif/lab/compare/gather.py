"""Finished runs as plain data: scores, curves, costs, and statistics over seeds.

Times and memory stand under the key `timing`: without these keys, two comparisons of one suite are equal to the last digit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attentif.lab.budget import Budget
from attentif.lab.compare.plan import Planned, Sized
from attentif.lab.compare.rates import FullRun
from attentif.lab.statistics import compare
from attentif.tasks.seeds import mean
from attentif.training.rundir import RunFolder, read_results

TIMING = "timing"
MOST_POINTS = 60  # of a curve of the training loss


def timeless(value: Any) -> Any:
    """The values without timings."""
    if isinstance(value, Mapping):
        return {key: timeless(item) for key, item in value.items() if key != TIMING}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def without_run(model: Sized, seed: int, failed: str | None) -> dict[str, Any]:
    """A run that could not even be started."""
    return {"model": model.name, "seed": seed, "run": None, "key": None, "failed": failed, "scores": None}


def run_record(run: FullRun, metric: str, root: Path, failed: str | None) -> dict[str, Any]:
    """One run; without scores where it failed or is still to be made."""
    model, folder = run.model, run.wanted.folder
    found = without_run(model, run.seed, failed) | {"run": folder.path.relative_to(root).as_posix(), "key": run.wanted.key}
    results = read_results(folder)
    if not results:
        return found
    cost = results["cost"]
    curves, seconds = curve_of(folder, metric, model.flops_per_token)
    found |= {
        "scores": results["scores"],
        "intervals": results["intervals"],
        "valid": results["valid"],
        "steps": results["steps"],
        "ended": results["ended"],
        "best_step": results["best_step"],
        "tokens": cost["tokens"],
        "flops": cost["tokens"] * model.flops_per_token,
        "parameters": cost["parameters"],
        **curves,
    }
    found[TIMING] = {
        "seconds": cost["seconds"],
        "tokens_per_second": cost["tokens"] / cost["seconds"] if cost["seconds"] else None,
        "peak_memory": cost["peak_memory"],
        "threads": cost["threads"],
        "device": cost["device"],
        "curve": seconds,
    }
    return found


def curve_of(folder: RunFolder, metric: str, flops_per_token: float) -> tuple[dict[str, Any], list[float]]:
    """The score on validation and the training loss along the way, by steps, tokens and operations; and by seconds."""
    rows = folder.metrics.rows()
    logged = [row for row in rows if "split" not in row]
    scored = [row for row in rows if row.get("split") == "valid" and row.get(metric) is not None]
    steps = [row["step"] for row in scored]
    at = lambda key: np.interp(steps, [0, *(row["step"] for row in logged)], [0, *(row[key] for row in logged)]).tolist()
    tokens = at("tokens") if steps else []
    kept = logged[:: max(1, -(-len(logged) // MOST_POINTS))]
    curves = {
        "curve": {
            "steps": steps,
            "tokens": tokens,
            "flops": [count * flops_per_token for count in tokens],
            "score": [row[metric] for row in scored],
        },
        "loss": {
            "steps": [row["step"] for row in kept],
            "tokens": [row["tokens"] for row in kept],
            "value": [row["loss"] for row in kept],
        },
    }
    return curves, at("seconds") if steps else []


def size_record(model: Sized) -> dict[str, Any]:
    """One model before anything is run."""
    return {
        "name": model.name,
        "base": model.config.model.base,
        "own_width": model.own_width,
        "changed": model.changed,
        "parameters": model.parameters,
        "embedding_parameters": model.embedding_parameters,
        "active_parameters": model.active_parameters,
        "flops_per_token": model.flops_per_token,
        "amount": model.amount,
        "wanted": model.wanted,
        "error": model.error,
        "tokens": model.tokens,
        "context": model.context,
        "state_bytes": model.state_bytes,
    }


def budget_record(budget: Budget | None) -> dict[str, Any] | None:
    return None if budget is None else {"kind": budget.kind, "amount": budget.amount, "words": str(budget)}


def sizes_data(planned: Planned) -> dict[str, Any]:
    """What the budget makes of the models of a comparison."""
    budget = budget_record(planned.part.budget)
    return {"name": planned.part.name, "budget": budget, "models": [size_record(model) for model in planned.models]}


def model_record(model: Sized, rate: tuple[float | None, str], runs: Sequence[Mapping[str, Any]], decoding: Any) -> dict[str, Any]:
    """One model: its size, its rate, and the costs of its runs."""
    found = size_record(model) | {"lr": rate[0], "lr_from": rate[1]}
    timings = [run[TIMING] for run in runs if run["model"] == model.name and run["scores"]]
    if timings:
        average = lambda key: float(np.mean(known)) if (known := [t[key] for t in timings if t[key] is not None]) else None
        found[TIMING] = {key: average(key) for key in ("seconds", "tokens_per_second", "peak_memory")}
        found[TIMING]["decoding"] = decoding
    return found


def statistics(planned: Planned, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means with intervals over the seeds; differences of every pair of models that have all of them, corrected together."""
    values: dict[str, Sequence[float]] = {}
    for model in planned.models:
        own = {run["seed"]: run["scores"].get(planned.metric) for run in runs if run["model"] == model.name and run["scores"]}
        values[model.name] = [own[seed] for seed in planned.part.seeds if own.get(seed) is not None]
    whole = {name: scores for name, scores in values.items() if len(scores) == len(planned.part.seeds)}
    return {
        "scores": {name: asdict(mean(scores)) for name, scores in values.items() if scores},
        "differences": [asdict(one) | {"different": one.different} for one in compare(whole)] if len(whole) > 1 else [],
    }
