"""Alignments side by side: a counted one (IBM model 1) and the attention of a translation model, mean over its layers and heads."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attentif.errors import UsageError
from attentif.view.blocks import AttentionMaps, FigureBlock, Paragraph, Section
from attentif.view.figures import alignment
from attentif.view.page import Page, write
from attentif.view.words import Text

SECTION = Text("Alignements", "Alignments")
ABOUT = Text(
    "Plus une case est foncée, plus le mot de la cible (ligne) vient de ce mot de la source (colonne). Le modèle IBM 1 (1993) compte ; "
    "l'attention (2015, 2017) est apprise en traduisant, et sur des jetons qui peuvent être des morceaux de mots.",
    "The darker a cell, the more the target word (row) comes from that source word (column). IBM model 1 (1993) counts; "
    "attention (2015, 2017) is learned by translating, on tokens that may be pieces of words.",
)


def attention_of(run: Any, source: str, target: str) -> AttentionMaps:
    """What a translation run's decoder looks at in the source while it writes the target."""
    across = [found for found in run.maps(source, target=target).maps if found.columns is not None]
    if not across:
        raise UsageError("this run's decoder does not look at the source: it has no attention to show beside", file=run.path)
    weights = np.mean([layer.mean(0) for found in across for layer in found.weights.values()], axis=0)
    return AttentionMaps(across[0].rows, {"mean": weights[None]}, across[0].columns, f"attention of {run.path}")


def weights_of(found: AttentionMaps) -> Any:
    return next(iter(found.weights.values()))[0]


def links(found: AttentionMaps) -> list[tuple[str, str, float]]:
    """Each target word, the source word that it comes from most, and how much."""
    weights = weights_of(found)
    return [(word, found.keys[int(row.argmax())], round(float(row.max()), 4)) for word, row in zip(found.rows, weights, strict=True)]


def write_page(path: Path, shown: Sequence[AttentionMaps], title: str) -> None:
    figures = [FigureBlock(found.title, partial(alignment, weights_of(found), found.rows, found.keys)) for found in shown]
    write(path, Page(title, [Section(SECTION, figures)], [Paragraph(ABOUT)]))
