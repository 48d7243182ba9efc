"""Scores as tables on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from attentif.cli.out import print_table

Scores = Mapping[str, float]
Intervals = Mapping[str, Sequence[float]]


def print_results(results: Mapping[str, Any]) -> None:
    """A run beside its baselines, the best known way to do it cheaply last; `results` is what results.json holds."""
    rivals = results["baselines"]
    scored = {key for rival in rivals for key in rival["scores"]} or set(results["scores"])
    keys = [key for key in _main_first(results["scores"], results["metric"]) if key in scored]
    rows = [_row(rival["name"]["en"], rival["scores"], rival["intervals"], keys) for rival in rivals]
    parts = results.get("details", {}).get("parts", {})  # of a run whose answers are averages
    rows += [
        _row(f"this run's {name} alone", parts[name]["scores"], parts[name]["intervals"], keys) for name in ("network",) if name in parts
    ]
    rows.append(_row("this run, an average" if parts else "this run", results["scores"], results["intervals"], keys))
    print_table(["", *map(_title, keys)], rows, title=f"{results['split']}: {results['examples']:,} examples", strong=len(rows) - 1)


def print_scores(scores: Scores, intervals: Intervals, *, metric: str, title: str) -> None:
    """The scores of one evaluation, a line each."""
    rows = [[_title(key), _written(key, scores, intervals)] for key in _main_first(scores, metric)]
    print_table(["score", "value (95 % interval)"], rows, title=title, strong=0)


def _main_first(scores: Scores, metric: str) -> list[str]:
    return sorted(scores, key=lambda key: key != metric)


def _row(name: str, scores: Scores, intervals: Intervals, keys: Sequence[str]) -> list[str]:
    return [name, *(_written(key, scores, intervals) for key in keys)]


def _title(key: str) -> str:
    from attentif.view.words import metric

    return metric(key).title.en


def _written(key: str, scores: Scores, intervals: Intervals) -> str:
    """ "97.3% (96.5% to 98.0%)" """
    from attentif.view.words import metric

    if scores.get(key) is None:  # a score that is not finite is nothing in JSON
        return "-"
    write = lambda value: metric(key).write(value).en
    low, high = intervals.get(key) or (None, None)
    interval = "" if low is None or high is None else f" ({write(low)} to {write(high)})"
    return write(scores[key]) + interval
