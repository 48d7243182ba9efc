"""Regression scores, and the report's section.

MAE = mean |y - ŷ|      RMSE = √ mean (y - ŷ)²      R² = 1 - Σ (y - ŷ)² / Σ (y - ȳ)²
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypedDict

import numpy as np

from attentif.tasks.answers import Evaluation
from attentif.tasks.classification.linear import Floats
from attentif.tasks.classification.report import shade
from attentif.tasks.details import details_of
from attentif.tasks.metrics import Interval, interval
from attentif.tasks.report import WORST_ERRORS
from attentif.view.blocks import Block, Cell, FigureBlock, Legend, Paragraph, Section, TableBlock
from attentif.view.words import Text, Words, number, percent

WORST = 12  # errors shown in the report


def regression_scores(
    true: Floats, answers: Floats, margin: float | None, *, draws: int = 1000
) -> tuple[dict[str, float], dict[str, Interval]]:
    """With `margin`, the share of the values inside the intervals too; rows are drawn again, as weights."""
    if not len(true):
        raise ValueError("no example was scored")
    weights = np.ones((1, len(true)))
    if draws:
        drawn = np.random.default_rng(0).multinomial(len(true), np.full(len(true), 1 / len(true)), size=draws)
        weights = np.concatenate([weights, drawn])
    errors, mean = answers - true, weights @ true / len(true)
    squares = weights @ np.square(errors)
    spread = np.maximum(weights @ np.square(true) - len(true) * np.square(mean), 1e-12)
    found = {"mae": weights @ np.abs(errors) / len(true), "rmse": np.sqrt(squares / len(true)), "r2": 1 - squares / spread}
    if margin is not None:
        found["coverage"] = weights @ (np.abs(errors) <= margin) / len(true)
    scores = {key: float(values[0]) for key, values in found.items()}
    return scores, {key: interval(values[1:], len(true)) for key, values in found.items()} if draws else {}


class NumberError(TypedDict):
    """A large error, and what each token contributed to the answer."""

    true: float
    answer: float
    place: str
    tokens: list[str]
    values: list[float]


class RegressDetails(TypedDict):
    values: list[list[float]]  # (value, answer) of each example
    margin: float | None
    worst: list[NumberError]


def regression_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, RegressDetails)) is None:
        return []
    sections = [Section(Text("Réponses et vérité", "Answers and truth"), _scatter(details, evaluation.scores))]
    if details["worst"]:
        sections.append(Section(WORST_ERRORS, _worst(details["worst"])))
    return sections


def _scatter(details: RegressDetails, scores: Mapping[str, float]) -> list[Block]:
    from attentif.view.figures.regression import answers_against_truth

    about = Text("Sur la diagonale, la réponse est juste.", "On the diagonal, the answer is right.")
    blocks: list[Block] = [
        FigureBlock(Text("Réponse selon la valeur", "Answer by value"), partial(answers_against_truth, details["values"]), about)
    ]
    if details["margin"] is not None:
        held = Text(
            "L'intervalle donné avec chaque réponse est de ± {margin} ; il est fait pour tenir neuf fois sur dix, et tient ici {share}.",
            "The interval given with each answer is ± {margin}; it is made to hold nine times in ten, and holds {share} of the time here.",
        ).with_(margin=number(details["margin"], 3), share=percent(scores["coverage"]))
        blocks.append(Paragraph(held))
    return blocks


def _worst(errors: Sequence[NumberError]) -> list[Block]:
    about = Text(
        "Les plus grandes erreurs, et ce que chaque mot a fait à la réponse du réseau.",
        "The largest errors, and what each word did to the network's answer.",
    )
    heads: list[Words] = [Text("valeur", "value"), Text("réponse", "answer"), Text("texte", "text"), Text("où", "where")]
    rows: list[list[Cell]] = [[number(e["true"], 3), number(e["answer"], 3), shade(e["tokens"], e["values"]), e["place"]] for e in errors]
    legend = Legend(Text("tire la réponse vers le haut", "pushes the answer up"), Text("vers le bas", "pushes it down"))
    return [Paragraph(about), legend, TableBlock(heads, rows)]
