"""Quality against cost, and the Pareto front: the systems that no other beats at both.

a dominates b   ⇔   cost_a ≤ cost_b,  quality_a ≥ quality_b,  and one of them strictly
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.axes import Axis, needed
from attentif.view.figures.intervals import bounded
from attentif.view.figures.labels import plain
from attentif.view.figures.scores import whiskers
from attentif.view.theme import FONT_SIZE, LINE, MARKER, NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text, Words


@dataclass(frozen=True, slots=True)
class Choice:
    """A system: what it costs and what it is worth."""

    name: Words
    cost: Score
    worth: Score


def front(choices: Sequence[Choice], worth: Axis) -> list[Choice]:
    """Those that none dominates, the cheapest first; whoever was not measured is not among them."""
    sign = 1 if worth.higher_is_better else -1
    known = [one for one in choices if math.isfinite(one.cost.value) and math.isfinite(one.worth.value)]
    best, kept = -math.inf, list[Choice]()
    for one in sorted(known, key=lambda one: (one.cost.value, -sign * one.worth.value)):
        value = sign * one.worth.value
        if value > best or (kept and value == best and one.cost.value == kept[-1].cost.value):
            best = value
            kept.append(one)
    return kept


def pareto(choices: Sequence[Choice], cost: Axis, worth: Axis, *, lang: Lang = "en") -> go.Figure:
    """The front in colour, joined by steps; what it dominates in grey; intervals as whiskers."""
    needed(choices, "a Pareto front needs a system at least")
    best = front(choices, worth)
    across = cost.layout(lang, [one.cost.value for one in choices])
    up = worth.layout(lang, [one.worth.value for one in choices])
    fig = figure(lang, height=480, xaxis=across, yaxis=up, showlegend=True)
    others = [one for one in choices if one not in best]
    joined = _dots(best, cost, worth, lang).update(
        name=Text("front de Pareto", "Pareto front")[lang],
        mode="lines+markers",
        line={"shape": "hv", "width": LINE, "color": SERIES["light"][0]},
        marker={"color": SERIES["light"][0]},
    )
    fig.add_trace(joined)
    dominated = Text("un autre fait mieux pour moins", "another does better for less")[lang]
    fig.add_trace(_dots(others, cost, worth, lang).update(name=dominated, marker={"color": NEUTRAL, "symbol": "x"}))
    _name(fig, choices, cost, worth, lang)
    return fig


def _dots(choices: Sequence[Choice], cost: Axis, worth: Axis, lang: Lang) -> go.Scatter:
    costs, worths = [one.cost for one in choices], [one.worth for one in choices]
    about = [f"{plain(one.name, lang)}<br>{bounded(one.worth, worth)[lang]}<br>{bounded(one.cost, cost)[lang]}" for one in choices]
    return go.Scatter(
        x=cost.drawn(score.value for score in costs),
        y=worth.drawn(score.value for score in worths),
        error_x=whiskers(costs, cost.scale) | {"thickness": 1, "width": 4},
        error_y=whiskers(worths, worth.scale) | {"thickness": 1, "width": 4},
        mode="markers",
        marker={"size": MARKER + 2},
        customdata=about,
        hovertemplate="%{customdata}<extra></extra>",
    )


def _name(fig: go.Figure, choices: Sequence[Choice], cost: Axis, worth: Axis, lang: Lang) -> None:
    """A name beside each point; from the left to the right they go above and below in turn, which keeps neighbours apart."""
    known = [one for one in choices if None not in (*cost.drawn([one.cost.value]), *worth.drawn([one.worth.value]))]
    for place, one in enumerate(sorted(known, key=lambda one: one.cost.value)):
        (x,), (y,) = cost.drawn([one.cost.value]), worth.drawn([one.worth.value])
        assert x is not None
        fig.add_annotation(
            x=math.log10(x) if cost.log else x,  # plotly places annotations of a logarithmic axis by their exponents
            y=math.log10(y) if worth.log and y is not None else y,
            text=plain(one.name, lang),
            showarrow=False,
            xshift=MARKER,
            yshift=FONT_SIZE if place % 2 == 0 else -FONT_SIZE,
            xanchor="left",
        )
