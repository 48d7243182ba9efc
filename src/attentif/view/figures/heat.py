"""A table of numbers as shades: what attention maps, routings, encodings and gates have in common."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from attentif.view.figures.axes import require_data
from attentif.view.figures.labels import distinct, plain
from attentif.view.theme import figure
from attentif.view.words import Lang, Words

CELL = 24  # pixels of a token on an axis
MOST_NAMED = 40  # beyond, names no longer fit, and the axis shows some of them
SHORT = 3  # characters of a name that stands upright


def heat_map(
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[Words, Words],
    *,
    signed: bool = False,
    most: float | None = None,
    lang: Lang = "en",
) -> go.Figure:
    """(rows, columns); `signed` shades both sides of zero alike, `most` is the value of the deepest shade. nan is left blank."""
    table = np.asarray(values, dtype=np.float64)
    require_data(table.reshape(-1), "a map needs a row and a column at least")
    if table.shape != (len(rows), len(columns)):
        raise ValueError(f"a map of {table.shape} with {len(rows)} rows and {len(columns)} columns")
    z = np.round(table, 3 if np.nanmax(np.abs(table), initial=0) <= 1 else 4).astype(np.float32)  # half the bytes
    deepest = max(float(np.nanmax(np.abs(z), initial=0)) if most is None else most, 1e-3)
    name = "coloraxis2" if signed else "coloraxis"
    shades = {"cmin": -deepest, "cmax": deepest, "cmid": None} if signed else {"cmin": 0, "cmax": deepest}
    slant = 0 if max(map(len, columns)) <= SHORT else -60
    fig = figure(
        lang,
        height=min(max(320, 130 + CELL * len(rows)), 900),
        xaxis={"title": {"text": plain(titles[1], lang)}, "type": "category", "tickangle": slant, "showgrid": False} | _every(columns),
        yaxis={"title": {"text": plain(titles[0], lang)}, "type": "category", "autorange": "reversed", "showgrid": False} | _every(rows),
        **{name: shades},
    )
    gap = 1 if max(len(rows), len(columns)) <= MOST_NAMED else 0
    trace = go.Heatmap(x=distinct(columns), y=distinct(rows), z=z, coloraxis=name, xgap=gap, ygap=gap)
    return fig.add_trace(trace.update(hovertemplate="%{y} → %{x}<br>%{z:.3~g}<extra></extra>"))


def _every(names: Sequence[str]) -> dict[str, int]:
    return {"dtick": 1} if len(names) <= MOST_NAMED else {"nticks": 12}
