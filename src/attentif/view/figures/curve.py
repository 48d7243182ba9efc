"""A score against the number of labelled examples, a line a system."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.labels import metric_axis, metric_scale, plain
from attentif.view.figures.scores import format_score, whiskers
from attentif.view.theme import figure
from attentif.view.words import Lang, Text, Words, count, metric

LABELS = Text("exemples étiquetés", "labelled examples")


@dataclass(frozen=True, slots=True)
class Line:
    """A system's scores by number of labels; what it is compared with is drawn dotted."""

    name: Words
    points: Sequence[tuple[int, Score]]
    ours: bool = True


def label_curve(key: str, lines: Sequence[Line], *, lang: Lang = "en") -> go.Figure:
    """Labels on a logarithmic axis, intervals as whiskers."""
    of = metric(key)
    scale = metric_scale(of)
    ticks = sorted({labels for line in lines for labels, _ in line.points})
    fig = figure(
        lang,
        height=460,
        xaxis={
            "title": {"text": LABELS[lang]},
            "type": "log",
            "tickvals": ticks,
            "ticktext": [count(labels)[lang] for labels in ticks],
        },
        yaxis={"title": {"text": plain(of.title, lang)}} | metric_axis(of, lang),
        showlegend=True,
    )
    for line in lines:
        scores = [score for _, score in line.points]
        trace = go.Scatter(
            x=[labels for labels, _ in line.points],
            y=[scale * score.value for score in scores],
            name=plain(line.name, lang),
            mode="lines+markers",
            line={"width": 3 if line.ours else 1.5, "dash": "solid" if line.ours else "dot"},
            marker={"size": 8 if line.ours else 5},
            customdata=[f"{plain(line.name, lang)}<br>{format_score(score, of)[lang]}" for score in scores],
            hovertemplate="%{customdata}<extra></extra>",
        )
        if any(score.low is not None for score in scores):
            trace.update(error_y=whiskers(scores, scale) | {"thickness": 1.5, "width": 5})
        fig.add_trace(trace)
    return fig
