"""Attention weights as pictures: one head, an alignment, or every head at a glance.

To explore heads one by one, show an `AttentionMaps` block: it draws on a canvas what would be hundreds of plotly heat maps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from attentif.view.figures.heat import heat_map
from attentif.view.figures.labels import plain
from attentif.view.theme import NEUTRAL, figure
from attentif.view.words import Lang, Text


def attention_map(weights: ArrayLike, rows: Sequence[str], columns: Sequence[str] | None = None, *, lang: Lang = "en") -> go.Figure:
    """One head, (T, S): the row's token looks at the column's."""
    titles = Text("regarde", "looks"), Text("est regardé", "is looked at")
    return heat_map(weights, rows, rows if columns is None else columns, titles, lang=lang)


def alignment(weights: ArrayLike, target: Sequence[str], source: Sequence[str], *, lang: Lang = "en") -> go.Figure:
    """Which source tokens (columns) each target token (rows) was written from, (T, S)."""
    return heat_map(weights, target, source, (Text("cible", "target"), Text("source", "source")), lang=lang)


def head_grid(weights: Mapping[str, NDArray[np.floating[Any]]], *, lang: Lang = "en") -> go.Figure:
    """Every head (H, T, S) of every layer in one mosaic: a row a layer, a column a head.

    One picture of bytes: 12 layers of 12 heads over 64 tokens weigh 0.6 MB. Shades follow √weight, which shows faint heads too.
    """
    heads = max((len(layer) for layer in weights.values()), default=0)
    T, S = next((layer.shape[1:] for layer in weights.values()), (0, 0))
    mosaic = np.zeros((len(weights) * T, heads * S), dtype=np.uint8)
    for row, layer in enumerate(weights.values()):
        tiles = np.rint(255 * np.sqrt(np.clip(layer, 0, 1))).astype(np.uint8)
        mosaic[row * T : (row + 1) * T, : len(layer) * S] = tiles.transpose(1, 0, 2).reshape(T, -1)
    centre = lambda n, width: [width * (i + 0.5) - 0.5 for i in range(n)]
    fig = figure(
        lang,
        height=110 + 80 * max(1, len(weights)),
        xaxis={"title": {"text": Text("tête", "head")[lang]}, "tickvals": centre(heads, S), "ticktext": list(range(1, heads + 1))},
        yaxis={"tickvals": centre(len(weights), T), "ticktext": [plain(name, lang) for name in weights], "autorange": "reversed"},
        coloraxis={"showscale": False, "cmin": 0, "cmax": 255},
    )
    fig.update_xaxes(showgrid=False, zeroline=False).update_yaxes(showgrid=False, zeroline=False)
    fig.add_trace(go.Heatmap(z=mosaic, coloraxis="coloraxis", hoverinfo="skip"))
    edge = {"color": NEUTRAL, "width": 1}
    for head in range(heads + 1):
        fig.add_vline(x=head * S - 0.5, line=edge)
    for row in range(len(weights) + 1):
        fig.add_hline(y=row * T - 0.5, line=edge)
    return fig
