"""Encodings of positions: the vectors themselves, and how alike those of any two places are."""

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from attentif.view.figures.axes import require_data
from attentif.view.figures.heat import heat_map
from attentif.view.words import Lang, Text

PLACE = Text("position", "position")


def position_encodings(table: ArrayLike, *, lang: Lang = "en") -> go.Figure:
    """(T, D): a row a position, a column a component."""
    values = np.atleast_2d(np.asarray(table, dtype=np.float64))
    places, components = ([str(i) for i in range(n)] for n in values.shape)
    return heat_map(values, places, components, (PLACE, Text("composante", "component")), signed=True, lang=lang)


def position_similarity(table: ArrayLike, *, lang: Lang = "en") -> go.Figure:
    """(T, D) → (T, T): the cosine between the encodings of two positions. Bands along the diagonal depend on distance alone."""
    values = np.atleast_2d(np.asarray(table, dtype=np.float64))
    require_data(values.reshape(-1), "encodings need a position at least")
    unit = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    numbers = [str(i) for i in range(len(values))]
    return heat_map(unit @ unit.T, numbers, numbers, (PLACE, PLACE), signed=True, most=1.0, lang=lang)
