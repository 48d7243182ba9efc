"""What something costs against how much of it there is, both on logarithmic axes, and the power law that fits: y = a nᵇ has slope b."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.intervals import format_interval
from attentif.view.figures.labels import plain
from attentif.view.figures.scores import whiskers
from attentif.view.theme import LINE, MARKER, THIN_LINE, figure, look
from attentif.view.words import Lang, Text, Words, with_decimals


@dataclass(frozen=True, slots=True)
class Law:
    """y = factor · n ** exponent between two n."""

    factor: float
    exponent: float
    first: float
    last: float

    def __call__(self, n: float) -> float:
        return self.factor * n**self.exponent

    def to_html(self, lang: Lang) -> str:
        """As plotly shows a power: "n<sup>1.98</sup>"."""
        return f"n<sup>{with_decimals(self.exponent, 2)[lang]}</sup>"


@dataclass(frozen=True, slots=True)
class Growth:
    """One subject: measurements at each n, and the fit."""

    name: Words
    points: Sequence[tuple[float, Score]]
    law: Law | None = None


def scaling(growths: Sequence[Growth], x: Axis, y: Axis, *, height: int = 500, lang: Lang = "en") -> go.Figure:
    """Points with their intervals joined by lines; the fit dashed, its exponent in the legend."""
    require_data([point for growth in growths for point in growth.points], "growth needs a measured point at least")
    across = x.logarithmic(x.ticks).layout(lang, [n for growth in growths for n, _ in growth.points])
    up = y.logarithmic(y.ticks).layout(lang, [score.value for growth in growths for _, score in growth.points])
    fig = figure(lang, height=height, xaxis=across, yaxis=up, showlegend=True)
    for place, growth in enumerate(growths):
        fig.add_trace(_measurements(growth, y.logarithmic(), look(place).colour, look(place).symbol, lang))
    for place, growth in enumerate(growths):
        if growth.law is not None:
            ends = [growth.law.first, growth.law.last]
            line = {"color": look(place).colour, "width": THIN_LINE, "dash": "dash"}
            fitted = go.Scatter(x=ends, y=y.plottable(map(growth.law, ends)), mode="lines", line=line, hoverinfo="skip", showlegend=False)
            fig.add_trace(fitted.update(legendgroup=str(place)))
    for trace, place in zip(fig.data, range(len(growths)), strict=False):
        trace.legendgroup = str(place)
    return fig


def _measurements(growth: Growth, y: Axis, colour: str, symbol: str, lang: Lang) -> go.Scatter:
    scores = [score for _, score in growth.points]
    name = plain(growth.name, lang)
    about = Text("{n} : {value}", "{n}: {value}")
    hover = [f"{name}<br>{about.with_(n=with_decimals(n, 0), value=format_interval(score, y))[lang]}" for n, score in growth.points]
    return go.Scatter(
        x=[n for n, _ in growth.points],
        y=y.plottable(score.value for score in scores),
        error_y=whiskers(scores, y.scale) | {"thickness": 1, "width": 3},
        name=name if growth.law is None else f"{name}  {growth.law.to_html(lang)}",
        mode="lines+markers",
        line={"color": colour, "width": LINE},
        marker={"symbol": symbol, "size": MARKER},
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
    )
