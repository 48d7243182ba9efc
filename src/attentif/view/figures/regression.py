"""Numbers that were answered, against those that are true."""

from collections.abc import Sequence

import plotly.graph_objects as go

from attentif.view.theme import NEUTRAL, figure
from attentif.view.words import Lang, Text


def answers_against_truth(values: Sequence[Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    """A point an example, (truth, answer), and the diagonal."""
    true, answers = zip(*values, strict=True)
    low, high = min(*true, *answers), max(*true, *answers)
    fig = figure(
        lang,
        height=460,
        xaxis={"title": {"text": Text("valeur", "value")[lang]}},
        yaxis={"title": {"text": Text("réponse", "answer")[lang]}},
    )
    points = go.Scatter(x=true, y=answers, mode="markers", showlegend=False, marker={"size": 6, "opacity": 0.45, "line": {"width": 0}})
    fig.add_trace(points.update(hovertemplate="%{x} → %{y:.3g}<extra></extra>"))
    right = go.Scatter(x=[low, high], y=[low, high], mode="lines", hoverinfo="skip", showlegend=False)
    return fig.add_trace(right.update(line={"dash": "dot", "width": 1.5, "color": NEUTRAL}))
