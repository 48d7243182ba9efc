"""The figures of a comparison, from `compare.json` alone: quality, differences, curves, costs."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Score, TableBlock
from attentif.view.comparison_tables import ALL, SIZE, cost_table, seeds_of
from attentif.view.figures.axes import FLOPS, PARAMETERS, SECONDS, TOKENS_READ, Axis
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.figures.intervals import IntervalEstimate, intervals
from attentif.view.figures.pareto import ParetoPoint, pareto
from attentif.view.verdict import Part, gap, rank_models, score_of
from attentif.view.words import Number, Text, Words, metric, with_decimals

ALIKE = 1.05  # ratio of costs under which they say nothing: the budget has made them equal


def quality(part: Part) -> list[Block]:
    """Every model with its interval, and the simple systems below."""
    of = metric(part["metric"])
    estimates = [IntervalEstimate(name, score_of(part, name), seeds_of(part, name)) for name in rank_models(part)]
    rivals = [rival for rival in part["baselines"] if rival["scores"].get(of.key) is not None]
    rivals.sort(key=lambda rival: rival["scores"][of.key], reverse=of.higher_is_better)
    estimates += [IntervalEstimate(Text(**rival["name"]), Score(rival["scores"][of.key]), stressed=False) for rival in rivals]
    if not estimates:
        return []
    about = Text(
        "Chaque point est la moyenne des graines ; le trait est l’intervalle à 95 % de cette moyenne (Student), les petits tirets sont les "
        "graines. En gris, des modèles simples, mesurés une fois.",
        "Each dot is the mean over seeds; the bar is the 95% interval of that mean (Student), the small ticks are the seeds. Grey: simple "
        "systems, measured once.",
    )
    return [FigureBlock(Text("Qualité", "Quality"), partial(intervals, estimates, Axis.of(of)), about)]


def differences(part: Part) -> list[Block]:
    """Every pair, the better one first."""
    of, found = metric(part["metric"]), [one for one in part["statistics"]["differences"] if one["low"] is not None]
    if not found:
        return []
    order = {name: place for place, name in enumerate(rank_models(part))}
    turned = [_better_first(one, order) for one in found]
    turned.sort(key=lambda one: (order[one["first"]], order[one["second"]]))
    about = Text(
        "Le meilleur moins l’autre, graine par graine. L’intervalle à 95 % est celui de cette paire seule ; p est corrigé (Holm) pour "
        "toutes les paires ensemble. En couleur, les écarts établis.",
        "The better minus the other, seed by seed. The 95% interval is that of this pair alone; p is corrected (Holm) for all pairs "
        "together. In colour: the differences that are established.",
    )
    heads: list[Words] = [
        Text("paire", "pair"),
        Text("écart", "difference"),
        Text("p corrigé", "corrected p"),
        Text("établi", "established"),
    ]
    rows: list[list[Cell]] = [
        [f"{one['first']} − {one['second']}", _gap(one, of), _p(one["adjusted"]), YES if one["different"] else NO] for one in turned
    ]
    shown = turned if len(turned) <= 15 else [one for one in turned if order[one["first"]] == 0]
    points, unit = (100, " (points)") if of.share else (1, "")  # two shares differ by points, not by a percentage
    drawn = [
        IntervalEstimate(
            f"{one['first']} − {one['second']}",
            Score(*(points * one[key] for key in ("value", "low", "high"))),
            stressed=one["different"],
        )
        for one in shown
    ]
    axis = Axis(Text(f"écart, {of.name.fr}{unit}", f"difference, {of.name.en}{unit}"), decimals=1 if of.share else None)
    title = Text("Écarts appariés", "Paired differences")
    return [FigureBlock(title, partial(intervals, drawn, axis, reference=0.0), about), TableBlock(heads, rows)]


YES, NO = Text("oui", "yes"), Text("non", "no")


def _better_first(one: Mapping[str, Any], order: Mapping[str, int]) -> dict[str, Any]:
    if order[one["first"]] < order[one["second"]]:
        return dict(one)
    return dict(one) | {
        "first": one["second"],
        "second": one["first"],
        "value": -one["value"],
        "low": -one["high"],
        "high": -one["low"],
    }


def _gap(one: Mapping[str, Any], of: Any) -> Text:
    low, high = (gap(one[key], of) for key in ("low", "high"))
    return Text("{value} [{low} ; {high}]", "{value} [{low}; {high}]").with_(value=gap(one["value"], of), low=_bare(low), high=_bare(high))


def _bare(words: Text) -> Text:
    return Text(*(words[lang].removesuffix("s").removesuffix(" point") for lang in ("fr", "en")))


def _p(value: float | None) -> Cell:
    if value is None:
        return None
    return Number("< 0,001", "< 0.001") if value < 0.001 else with_decimals(value, 3)


def curves(part: Part) -> list[Block]:
    """Validation score against cost."""
    of = metric(part["metric"])
    blocks: list[Block] = []
    for key, axis, title in (
        ("tokens", TOKENS_READ, Text("Selon les jetons lus", "Against tokens read")),
        ("flops", FLOPS, Text("Selon les opérations", "Against operations")),
        ("seconds", SECONDS, Text("Selon le temps", "Against time")),
    ):
        bands = [band for model in part["models"] if (band := mean_curve(part, model["name"], key)) is not None]
        if bands:
            about = ABOUT_CURVES if key == "tokens" else ""
            blocks.append(FigureBlock(title, partial(banded_curves, bands, axis, Axis.of(of)), about))
    return blocks


ABOUT_CURVES = Text(
    "Score sur la validation au cours de l’apprentissage : moyenne des graines, et de la plus basse à la plus haute en bande.",
    "Score on validation along training: the mean over seeds, and the band from the lowest to the highest of them.",
)


def mean_curve(part: Part, model: str, key: str) -> Any:
    """The mean over seeds of each evaluation, with the lowest and the highest, at the mean of its places; None without a curve."""
    runs = [run for run in part["runs"] if run["model"] == model and run["scores"] and len(run["curve"]["steps"]) > 1]
    if not runs:
        return None
    points = min(len(run["curve"]["steps"]) for run in runs)
    place = lambda run: run["timing"]["curve"] if key == "seconds" else run["curve"][key]
    x = np.mean([place(run)[:points] for run in runs], 0)
    values = np.array([run["curve"]["score"][:points] for run in runs])
    low, high = (values.min(0).tolist(), values.max(0).tolist()) if len(runs) > 1 else (None, None)
    return Band(model, x.tolist(), values.mean(0).tolist(), low, high)


def costs(part: Part) -> list[Block]:
    """Quality against each cost, with the Pareto front."""
    of, scores = metric(part["metric"]), part["statistics"]["scores"]
    known = [model for model in part["models"] if model["name"] in scores]
    about = Text(
        "Sur le front : les modèles qu’aucun autre ne bat à la fois en qualité et en coût.",
        "On the front: the models that no other beats both in quality and in cost.",
    )
    wanted: list[tuple[Text, Axis, Callable[[Mapping[str, Any]], float | None]]] = [
        (Text("Qualité et opérations", "Quality and operations"), FLOPS, lambda m: m["flops_per_token"] * m["tokens"]),
        (Text("Qualité et durée", "Quality and time"), SECONDS, lambda m: (m.get("timing") or {}).get("seconds")),
        (Text("Qualité et paramètres", "Quality and parameters"), PARAMETERS, lambda m: m["parameters"]),
    ]
    blocks: list[Block] = [cost_table(part, [key for key in ALL if key not in SIZE], score=False), Paragraph(_about_costs(part), "note")]
    for title, axis, cost in wanted:
        found = [value for model in known if (value := cost(model)) is not None]
        if len(found) == len(known) > 1 and max(found) >= ALIKE * min(found):
            choices = [ParetoPoint(m["name"], Score(value), score_of(part, m["name"])) for m, value in zip(known, found, strict=True)]
            blocks.append(FigureBlock(title, partial(pareto, choices, axis, Axis.of(of)), about))
    return blocks


def _about_costs(part: Part) -> Text:
    """Meaning of the columns; decoding only for models that generate."""
    known = TRAINING_COSTS
    if any(model["state_bytes"] is not None for model in part["models"]):
        known = Text(known.fr + WRITING_COSTS.fr, known.en + WRITING_COSTS.en)
    return Text(f"{known.fr}.", f"{known.en}.")


TRAINING_COSTS = Text(
    "Durée de l’apprentissage, sans l’évaluation ; mémoire du processus au plus haut, Python et données compris",
    "Time of training, without evaluation; peak memory of the process, Python and data included",
)
WRITING_COSTS = Text(
    " ; écriture d’un texte à la fois ; état : ce que le modèle retient, en écrivant, d’un texte de la longueur des plus longs exemples",
    "; writing of one text at a time; state: what the model keeps, while writing, of a text as long as the longest examples",
)
