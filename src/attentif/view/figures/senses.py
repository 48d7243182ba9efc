"""The uses of a word: who is near to whom, and where each stands."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from attentif.view.figures.heat import heat_map
from attentif.view.figures.projection import embedding_projection
from attentif.view.words import Lang, Words

MOST_WRITTEN = 16  # rows of a matrix whose cosines can be written into it
MARGIN = 0.25  # of the plane's width, on each side: room for what stands beside the points


def cosine_matrix(cosines: ArrayLike, labels: Sequence[str], *, lang: Lang = "en") -> go.Figure:
    """Every use beside every other; shades run from the smallest cosine there is, which is far above 0 in most models."""
    table = np.asarray(cosines, dtype=np.float64)
    fig = heat_map(table, labels, [f"{number}" for number in range(1, len(labels) + 1)], ("", ""), most=1.0, lang=lang)
    fig.update_layout(coloraxis={"cmin": min(float(table.min()), 0.99), "cmax": 1.0})
    return fig.update_traces(texttemplate="%{z:.2f}") if len(labels) <= MOST_WRITTEN else fig


def map_of_uses(vectors: ArrayLike, labels: Sequence[str], groups: Sequence[Words] | None = None, *, lang: Lang = "en") -> go.Figure:
    """The directions of the vectors, on the plane of their two principal components."""
    table = np.asarray(vectors, dtype=np.float64)
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
    fig = embedding_projection(unit, labels, groups, lang=lang)
    across = [float(x) for trace in fig.data for x in trace.x]
    room = MARGIN * max(max(across) - min(across), 1e-6)
    return fig.update_xaxes(range=[min(across) - room, max(across) + room])
