"""Where parameters, time or memory go."""

from collections.abc import Mapping

import plotly.graph_objects as go

from attentif.view.figures.labels import plain
from attentif.view.theme import figure
from attentif.view.words import UNITS, Lang, Unit, W, percent


def cost_bars(parts: Mapping[W, float], unit: Unit, *, lang: Lang = "en") -> go.Figure:
    """A bar for each part, with its amount and its share of the whole."""
    name, write = UNITS[unit]
    whole = sum(parts.values()) or 1.0
    rows = list(parts.items())[::-1]  # plotly draws the first row at the bottom
    fig = figure(
        lang,
        height=86 + 52 * max(1, len(rows)),  # the axis and its title, then the bars
        xaxis={"title": {"text": name[lang]}, "rangemode": "tozero", "nticks": 5},
        yaxis={"visible": False, "range": [-0.5, len(rows) - 0.2]},
    )
    labels = [f"{plain(part, lang)}  <b>{write(value)[lang]}</b> ({percent(value / whole)[lang]})" for part, value in rows]
    places = list(range(len(rows)))
    fig.add_trace(go.Bar(x=[value for _, value in rows], y=places, orientation="h", width=0.34, customdata=labels))
    fig.update_traces(hovertemplate="%{customdata}<extra></extra>")
    for place, label in zip(places, labels, strict=True):
        fig.add_annotation(x=0, y=place + 0.18, text=label, xanchor="left", yanchor="bottom", showarrow=False)
    return fig
