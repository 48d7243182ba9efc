"""Vectors on a plane: their two principal components (Pearson 1901), X − mean = U S Vᵀ, drawn U S."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from attentif.view.figures.axes import require_data
from attentif.view.figures.labels import plain
from attentif.view.theme import FONT_SIZE, MARKER, figure, look
from attentif.view.words import Lang, Text, Words, percent

MOST_NAMED = 60  # labels that can stand beside their points; beyond, the pointer shows them


def principal(vectors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N, 2): the first two components, and the share of the variance that each explains; each component's largest value is positive."""
    x = np.asarray(vectors, dtype=np.float64)
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    components = np.zeros((len(x), 2))
    found = (u * s)[:, :2]
    components[:, : found.shape[1]] = found * np.where(np.take_along_axis(found, np.abs(found).argmax(0)[None], 0) < 0, -1, 1)
    shares = np.zeros(2)
    shares[: min(2, len(s))] = s[:2] ** 2 / max(float((s**2).sum()), 1e-30)
    return components, shares


def embedding_projection(
    vectors: ArrayLike, labels: Sequence[str], groups: Sequence[Words] | None = None, *, lang: Lang = "en"
) -> go.Figure:
    """Points by label; those of a group share a colour and a symbol. Rows with nan are left out."""
    table = np.asarray(vectors, dtype=np.float64)
    require_data(table.reshape(-1), "a projection needs a vector at least")
    known = [place for place in range(len(labels)) if np.isfinite(table[place]).all()]
    require_data(known, "no vector is a number")
    points, shares = principal(table[known])
    title = Text("composante {n} ({share} de la variance)", "component {n} ({share} of the variance)")
    axes: list[dict[str, Any]] = [
        {"title": {"text": title.with_(n=str(n + 1), share=percent(shares[n]))[lang]}, "showticklabels": False} for n in range(2)
    ]
    fig = figure(lang, height=620, xaxis=axes[0], yaxis=axes[1] | {"scaleanchor": "x"}, showlegend=groups is not None)
    kinds = list(dict.fromkeys(groups or [""]))
    for number, kind in enumerate(kinds):
        own = [row for row, place in enumerate(known) if groups is None or groups[place] == kind]
        style = look(number)
        fig.add_trace(
            go.Scatter(
                x=points[own, 0],
                y=points[own, 1],
                text=[plain(labels[known[row]], lang) for row in own],
                name=plain(kind, lang),
                mode="markers+text" if len(known) <= MOST_NAMED else "markers",
                textposition="top center",
                textfont={"size": FONT_SIZE - 2},
                marker={"size": MARKER, "color": style.colour, "symbol": style.symbol},
                hovertemplate="%{text}<extra></extra>",
            )
        )
    return fig
