"""A page on what labels are worth: the curve, and its numbers."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attentif.view.blocks import FigureBlock, Score, Section, TableBlock
from attentif.view.page import Page, write
from attentif.view.words import Number, Text, Words, count, metric

TITLE = Text("Ce que valent les étiquettes", "What labels are worth")


def curve_page(path: Path, curve: Mapping[str, Any]) -> None:
    """Write the page of a curve returned by `training.curve.measure`."""
    from attentif.view.figures.curve import Line, label_curve

    lines = [
        Line(Text(**line["name"]), [(point["labels"], score_of(point)) for point in line["points"]], line["ours"])
        for line in curve["lines"]
    ]
    about = Text(
        "Chaque point est la moyenne de plusieurs graines, qui décident des poids et des exemples étiquetés ; le trait vertical est son "
        "intervalle à 95 %. En pointillés, les modèles simples.",
        "Each point is the mean over several seeds, which decide the weights and which examples are labelled; the bar is its 95% interval. "
        "Dotted: the simple baselines.",
    )
    of = metric(curve["metric"])
    drawn = FigureBlock(
        Text(f"{of.name.fr} selon le nombre d’étiquettes", f"{of.name.en} by the number of labels"),
        partial(label_curve, of.key, lines),
        about,
    )
    columns, rows = curve_table(curve)
    numbers = Section(Text("Les nombres", "The numbers"), [TableBlock(columns, rows)])
    write(path, Page(Text(f"{TITLE.fr} : {curve['recipe']}", f"{TITLE.en}: {curve['recipe']}"), [numbers], [drawn]))


def curve_table(curve: Mapping[str, Any]) -> tuple[list[Words], list[list[Words]]]:
    """A row a system, a column a number of labels."""
    of = metric(curve["metric"])
    sizes = sorted({point["labels"] for line in curve["lines"] for point in line["points"]})
    rows: list[list[Words]] = []
    for line in curve["lines"]:
        by_size = {point["labels"]: point for point in line["points"]}
        rows.append([Text(**line["name"]), *(_format_point(by_size[size], of) if size in by_size else "" for size in sizes)])
    return [of.title, *(count(size) for size in sizes)], rows


def score_of(point: Mapping[str, Any]) -> Score:
    return Score(point["mean"], point["low"], point["high"])


def _format_point(point: Mapping[str, Any], of: Any) -> Number:
    """ "88.1 % ± 0.6" """
    value = of.write(point["mean"])
    if point["low"] is None:
        return Number(value.fr, value.en)
    half = of.write((point["high"] - point["low"]) / 2)
    return Number(*(f"{value[lang]} ± {half[lang].rstrip('%').rstrip()}" for lang in ("fr", "en")))
