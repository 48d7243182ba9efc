"""Intervals one above the other (a forest plot): a row a model, its mean, its interval, its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.labels import plain
from attentif.view.figures.scores import BAR_HEIGHT, whiskers
from attentif.view.theme import LINE, MARKER, NEUTRAL, SERIES, SMALL_MARKER, figure
from attentif.view.words import Lang, Number, Words

ABOVE = 0.2  # of a row: where its name stands


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """What was measured of one model: the mean, its interval, and each seed's own value."""

    name: Words
    score: Score
    seeds: Sequence[float] = ()
    stressed: bool = True  # in colour; the others in grey


def format_interval(score: Score, axis: Axis) -> Number:
    """ "0.91 [0.89; 0.93]" """
    if score.low is None or score.high is None:
        return axis.write(score.value)
    value, low, high = (axis.write(bound) for bound in (score.value, score.low, score.high))
    return Number(f"{value.fr} [{low.fr} ; {high.fr}]", f"{value.en} [{low.en}; {high.en}]")


def intervals(estimates: Sequence[IntervalEstimate], axis: Axis, *, reference: float | None = None, lang: Lang = "en") -> go.Figure:
    """Rows in the order given, the first on top; a dotted line at `reference`: 0 for differences, chance for scores."""
    require_data(estimates, "intervals need an estimate at least")
    if axis.share:
        estimates = [replace(estimate, score=estimate.score.as_share()) for estimate in estimates]
    rows = list(enumerate(reversed(estimates)))  # plotly draws the first row at the bottom
    fig = figure(
        lang,
        height=80 + BAR_HEIGHT * len(rows),
        xaxis=axis.layout(lang, [estimate.score.value for estimate in estimates]),
        yaxis={"visible": False, "range": [-0.5, len(rows) - 0.3]},
        showlegend=False,
        margin={"l": 20, "r": 26},
    )
    if reference is not None:
        fig.add_vline(x=axis.scale * reference, line={"color": NEUTRAL, "dash": "dot", "width": LINE})
    for stressed in (True, False):
        chosen = [(row, estimate) for row, estimate in rows if estimate.stressed is stressed]
        fig.add_trace(_seeds(chosen, axis))
        fig.add_trace(_means(chosen, axis, lang).update(marker={"color": SERIES["light"][0] if stressed else NEUTRAL}))
    for row, estimate in rows:  # the name stands above its interval, so that it needs no margin on a phone
        label = f"{plain(estimate.name, lang)}  <b>{format_interval(estimate.score, axis)[lang]}</b>"
        fig.add_annotation(x=0, xref="paper", y=row + ABOVE, text=label, xanchor="left", yanchor="bottom", showarrow=False, align="left")
    return fig


def _means(rows: Sequence[tuple[int, IntervalEstimate]], axis: Axis, lang: Lang) -> go.Scatter:
    return go.Scatter(
        x=axis.plottable(estimate.score.value for _, estimate in rows),
        y=[row for row, _ in rows],
        mode="markers",
        marker={"size": MARKER + 3},
        error_x=whiskers([estimate.score for _, estimate in rows], axis.scale) | {"thickness": LINE, "width": 7},
        customdata=[f"{plain(estimate.name, lang)}<br>{format_interval(estimate.score, axis)[lang]}" for _, estimate in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _seeds(rows: Sequence[tuple[int, IntervalEstimate]], axis: Axis) -> go.Scatter:
    """Each seed's own value, below the interval."""
    places = [(row, value) for row, estimate in rows for value in estimate.seeds]
    return go.Scatter(
        x=axis.plottable(value for _, value in places),
        y=[row - ABOVE for row, _ in places],
        mode="markers",
        marker={"size": SMALL_MARKER + 1, "color": NEUTRAL, "symbol": "line-ns-open", "line": {"width": 2}},
        hovertemplate="%{x:.4~g}<extra></extra>",
    )
