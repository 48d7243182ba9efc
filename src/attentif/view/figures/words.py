"""Word vectors as pictures."""

from collections.abc import Sequence

import plotly.graph_objects as go

from attentif.view.figures.labels import plain
from attentif.view.theme import figure
from attentif.view.words import Lang, Text


def word_plane(words: Sequence[tuple[str, float, float]], *, lang: Lang = "en") -> go.Figure:
    """Words where two components put them: (word, x, y)."""
    axis = lambda number: {"title": {"text": Text(f"composante {number}", f"component {number}")[lang]}, "showticklabels": False}
    fig = figure(lang, height=620, xaxis=axis(1), yaxis=axis(2))
    trace = go.Scatter(
        x=[x for _, x, _ in words],
        y=[y for _, _, y in words],
        text=[plain(word, lang) for word, _, _ in words],
        mode="markers+text",
        textposition="top center",
        textfont={"size": 11},
        marker={"size": 4},
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )
    return fig.add_trace(trace)
