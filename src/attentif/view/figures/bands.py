"""Curves with what they lie between: several seeds of one model, against steps, tokens, seconds or operations."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.labels import plain
from attentif.view.theme import BAND, LINE, MARKER, THIN_LINE, Look, figure, look
from attentif.view.words import Lang, Words

FEW = 30  # points under which each one is marked


@dataclass(frozen=True, slots=True)
class Band:
    """A curve and, where they are known, the bounds around it. A baseline is drawn thin and dotted."""

    name: Words
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    baseline: bool = False

    def __post_init__(self) -> None:
        sizes = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(sizes) > 1 or (self.low is None) != (self.high is None):
            raise ValueError("a band has as many values as places, and both bounds or neither")


def banded_curves(bands: Sequence[Band], x: Axis, y: Axis, *, height: int = 440, lang: Lang = "en") -> go.Figure:
    """A line a band, with its bounds shaded in the same colour; what is not a number leaves a gap."""
    require_data(bands, "curves need a band at least")
    across = x.layout(lang, [value for band in bands for value in band.x])
    up = y.layout(lang, [value for band in bands for values in (band.y, band.low, band.high) if values is not None for value in values])
    fig = figure(lang, height=height, xaxis=across, yaxis=up, showlegend=True, hovermode="x unified")
    for place, band in enumerate(bands):
        style = look(place)
        if band.low is not None and band.high is not None:
            fig.add_trace(_between(band, x, y, style, plain(band.name, lang)))
        fig.add_trace(_middle(band, x, y, style, plain(band.name, lang)))
    return fig


def _middle(band: Band, x: Axis, y: Axis, style: Look, name: str) -> go.Scatter:
    return go.Scatter(
        x=x.plottable(band.x),
        y=y.plottable(band.y),
        name=name,
        legendgroup=name,
        mode="lines+markers" if len(band.x) < FEW and not band.baseline else "lines",
        line={"color": style.colour, "width": THIN_LINE if band.baseline else LINE, "dash": "dot" if band.baseline else style.dash},
        marker={"symbol": style.symbol, "size": MARKER},
        hovertemplate="%{y:.4~g}",
    )


def _between(band: Band, x: Axis, y: Axis, style: Look, name: str) -> go.Scatter:
    """One polygon: along the upper bound, back along the lower one. Places without both bounds are left out."""
    assert band.low is not None
    assert band.high is not None
    bounds = [Score(*row) for row in zip(band.y, band.low, band.high, strict=True)]
    if y.share:
        bounds = [score.as_share() for score in bounds]
    ends = (y.plottable(score.low for score in bounds), y.plottable(score.high for score in bounds))
    rows = [row for row in zip(x.plottable(band.x), *ends, strict=True) if None not in row]
    there, low, high = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return go.Scatter(
        x=[*there, *there[::-1]],
        y=[*high, *low[::-1]],
        mode="none",
        fill="toself",
        fillcolor=style.colour,
        opacity=BAND,
        name=name,
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
    )
