"""Scores as tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attentif.cli.out import print_table, say, translate
from attentif.french import choose_language, pick

ON_REQUEST = ("balanced_accuracy", "auc", "average_precision")  # beside baselines only where classes are rare
RARE_BESIDE = ("accuracy", "f1", "average_precision")
MOST_CLASSES = 12  # of a table with a line for each

Scores = Mapping[str, float]
Intervals = Mapping[str, Sequence[float]]


def print_results(results: Mapping[str, Any]) -> None:
    """Print the scores of a run and of its baselines; `results` is the content of results.json."""
    rivals = results["baselines"]
    scored = {key for rival in rivals for key in rival["scores"]} or set(results["scores"])
    main = results["metric"]
    beside = RARE_BESIDE if main == "balanced_accuracy" else ON_REQUEST
    keys = [key for key in _main_first(results["scores"], main) if key in scored and (key == main or key not in beside)]
    rows = [_row(rival["name"][choose_language()], rival["scores"], rival["intervals"], keys) for rival in rivals]
    parts = results.get("details", {}).get("parts", {})  # of a run whose answers are averages
    if "network" in parts:
        alone = parts["network"]
        rows.append(_row(pick("le réseau seul", "this run's network alone"), alone["scores"], alone["intervals"], keys))
    own = pick("ce modèle, une moyenne", "this run, an average") if parts else pick("ce modèle", "this run")
    rows.append(_row(own, results["scores"], results["intervals"], keys))
    title = title_of(results["split"], results["examples"], results.get("unit")) + _explain_arrow(keys)
    print_table(["", *map(_head, keys)], rows, title=title, strong=len(rows) - 1)
    if main == "balanced_accuracy":
        print_classes(results["details"])
    if ahead := _ahead(rivals, results["scores"], main):
        best = pick("--use best garde le meilleur des deux sur la validation", "--use best keeps the better of the two on validation")
        way_out = f"; {best}" if results["task"] == "classify" else ""
        say(pick(f"sur le test, {ahead} fait mieux que ce modèle", f"on test, {ahead} is ahead of this run") + way_out)


def _ahead(rivals: Sequence[Mapping[str, Any]], scores: Scores, main: str) -> str:
    """The best baseline, if it beats the run."""
    from attentif.view.words import metric

    sign = 1 if metric(main).higher_is_better else -1
    scored = [rival for rival in rivals if rival["scores"].get(main) is not None and scores.get(main) is not None]
    best = max(scored, key=lambda rival: sign * rival["scores"][main], default=None)
    if best is None or sign * best["scores"][main] <= sign * scores[main]:
        return ""
    shown = [metric(main).write(value).en for value in (best["scores"][main], scores[main])]
    return best["name"][choose_language()] if shown[0] != shown[1] else ""  # no difference that could be read in the table


def print_classes(details: Mapping[str, Any]) -> None:
    """Print results by class, if there are few."""
    from attentif.view.words import count, percent

    labels, table = details.get("labels", []), details.get("confusion", [])
    if not 2 <= len(table) <= MOST_CLASSES:
        return
    rows = []
    for c, name in enumerate(labels):
        true, answered, right = sum(table[c]), sum(row[c] for row in table), table[c][c]
        shares = [right / max(answered, 1), right / max(true, 1), 2 * right / max(true + answered, 1)]
        rows.append([name, *(translate(percent(value)) for value in shares), translate(count(true)), translate(count(answered))])
    heads = [pick("classe", "class"), pick("précision", "precision"), pick("rappel", "recall"), "F1"]
    print_table([*heads, pick("exemples", "examples"), pick("réponses", "answers")], rows)


def print_scores(scores: Scores, intervals: Intervals, *, metric: str, title: str) -> None:
    """The scores of one evaluation, a line each."""
    rows = [[_head(key), _format_score(key, scores, intervals)] for key in _main_first(scores, metric)]
    columns = [pick("mesure", "score"), pick("valeur (intervalle à 95 %)", "value (95 % interval)")]
    print_table(columns, rows, title=title + _explain_arrow(scores), strong=0)


def title_of(name: str, examples: int, unit: Mapping[str, str] | None = None) -> str:
    """ "test: 200 examples"."""
    from attentif.view.words import count

    unit = unit or {"fr": "exemples", "en": "examples"}
    return pick(f"{name} : {count(examples).fr} {unit['fr']}", f"{name}: {examples:,} {unit['en']}")


def _main_first(scores: Scores, metric: str) -> list[str]:
    return sorted(scores, key=lambda key: key != metric)


def _row(name: str, scores: Scores, intervals: Intervals, keys: Sequence[str]) -> list[str]:
    return [name, *(_format_score(key, scores, intervals) for key in keys)]


def _head(key: str) -> str:
    from attentif.view.words import metric

    return translate(metric(key).head)


def _explain_arrow(keys: Iterable[str]) -> str:
    """ " (↓: lower is better)" where a score has the arrow."""
    from attentif.view.words import LOWER, metric

    return "" if all(metric(key).higher_is_better for key in keys) else f" ({translate(LOWER)})"


def _format_score(key: str, scores: Scores, intervals: Intervals) -> str:
    """ "97.3% (96.5% to 98.0%)" """
    from attentif.view.words import metric

    if scores.get(key) is None:  # a score that is not finite is nothing in JSON
        return "-"
    low, high = intervals.get(key) or (None, None)
    if low is None or high is None:
        return translate(metric(key).write(scores[key]))
    value, least, most = map(translate, metric(key).write_alike([scores[key], low, high]))
    return f"{value} ({least} {pick('à', 'to')} {most})"
