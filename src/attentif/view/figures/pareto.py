"""Quality against cost, and the Pareto front: the systems that no other beats at both.

a dominates b   ⇔   cost_a ≤ cost_b,  quality_a ≥ quality_b,  and one of them strictly
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.intervals import format_interval
from attentif.view.figures.labels import plain
from attentif.view.figures.scores import whiskers
from attentif.view.theme import FONT_SIZE, LINE, MARKER, NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text, Words

Box = tuple[float, float, float, float]  # left, bottom, right, top
WIDE, HIGH = 380, 320  # pixels of the plot when two figures stand side by side: enough to tell which names would touch
LETTER = 0.55 * FONT_SIZE  # width of one, on average


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A system: its cost and its score."""

    name: Words
    cost: Score
    worth: Score


def front(choices: Sequence[ParetoPoint], worth: Axis) -> list[ParetoPoint]:
    """The non-dominated points, cheapest first, without those that were not measured."""
    sign = 1 if worth.higher_is_better else -1
    known = [one for one in choices if math.isfinite(one.cost.value) and math.isfinite(one.worth.value)]
    best, kept = -math.inf, list[ParetoPoint]()
    for one in sorted(known, key=lambda one: (one.cost.value, -sign * one.worth.value)):
        value = sign * one.worth.value
        if value > best or (kept and value == best and one.cost.value == kept[-1].cost.value):
            best = value
            kept.append(one)
    return kept


def pareto(choices: Sequence[ParetoPoint], cost: Axis, worth: Axis, *, lang: Lang = "en") -> go.Figure:
    """The Pareto front in colour, joined by steps; dominated points in grey; intervals as whiskers."""
    require_data(choices, "a Pareto front needs a system at least")
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


def _dots(choices: Sequence[ParetoPoint], cost: Axis, worth: Axis, lang: Lang) -> go.Scatter:
    costs, worths = [one.cost for one in choices], [one.worth for one in choices]
    about = [
        f"{plain(one.name, lang)}<br>{format_interval(one.worth, worth)[lang]}<br>{format_interval(one.cost, cost)[lang]}"
        for one in choices
    ]
    return go.Scatter(
        x=cost.plottable(score.value for score in costs),
        y=worth.plottable(score.value for score in worths),
        error_x=whiskers(costs, cost.scale) | {"thickness": 1, "width": 4},
        error_y=whiskers(worths, worth.scale) | {"thickness": 1, "width": 4},
        mode="markers",
        marker={"size": MARKER + 2},
        customdata=about,
        hovertemplate="%{customdata}<extra></extra>",
    )


def _name(fig: go.Figure, choices: Sequence[ParetoPoint], cost: Axis, worth: Axis, lang: Lang) -> None:
    """A name beside each point, where it covers no other name and no other point."""
    known = [one for one in choices if None not in (*cost.plottable([one.cost.value]), *worth.plottable([one.worth.value]))]
    known.sort(key=lambda one: one.cost.value)
    names = [plain(one.name, lang) for one in known]
    places = [(_along(cost, one.cost.value), _along(worth, one.worth.value)) for one in known]
    heights = [_along(worth, bound) for one in known for bound in (one.worth.low, one.worth.high) if bound is not None]
    for (x, y), name, side in zip(places, names, sides(places, names, heights), strict=True):
        fig.add_annotation(x=x, y=y, text=name, showarrow=False, xshift=side.right, yshift=side.up, xanchor=side.anchor)


def _along(axis: Axis, value: float) -> float:
    """Where a value stands on its axis: plotly places annotations of a logarithmic axis by their exponents."""
    (drawn,) = axis.plottable([value])
    if drawn is None:
        return math.nan
    return math.log10(drawn) if axis.log else drawn


@dataclass(frozen=True, slots=True)
class Side:
    """Where a name stands, in pixels from its point."""

    anchor: str
    right: int
    up: int

    def box(self, at: tuple[float, float], name: str) -> Box:
        wide = LETTER * len(name)
        left = at[0] + self.right - (0 if self.anchor == "left" else wide)
        return left, at[1] + self.up - FONT_SIZE / 2, left + wide, at[1] + self.up + FONT_SIZE / 2


def sides(places: Sequence[tuple[float, float]], names: Sequence[str], heights: Sequence[float] = ()) -> list[Side]:
    """For each name in turn the first side on which it is free, or the freest; `heights` are other values that the axis must hold."""
    across, up = [x for x, _ in places], [*(y for _, y in places), *(y for y in heights if math.isfinite(y))]
    pixels = [(_pixel(x, across, WIDE), _pixel(y, up, HIGH)) for x, y in places]
    dots = [(x - MARKER, y - MARKER, x + MARKER, y + MARKER) for x, y in pixels]
    taken: list[Box] = []
    found = []
    for number, (at, name) in enumerate(zip(pixels, names, strict=True)):
        others = [*taken, *dots[:number], *dots[number + 1 :]]
        best = min(SIDES, key=lambda side: sum(_overlap_area(side.box(at, name), other) for other in others))
        found.append(best)
        taken.append(best.box(at, name))
    return found


def _pixel(value: float, values: Sequence[float], size: int) -> float:
    low, high = min(values), max(values)
    return size * (value - low) / (high - low) if high > low else size / 2


def _overlap_area(one: Box, other: Box) -> float:
    """The area that two boxes have in common."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0


NEAR, FAR = FONT_SIZE, 2 * FONT_SIZE + 4
SIDES = [Side(anchor, right, up) for up in (NEAR, -NEAR, FAR, -FAR) for anchor, right in (("left", MARKER), ("right", -MARKER))]
