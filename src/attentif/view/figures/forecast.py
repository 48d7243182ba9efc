"""Forecasts: what was read, what came, what was forecast with its band; errors step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.figures.labels import plain
from attentif.view.theme import DASHES, NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text, Words, percent

READ = Text("observé", "observed")
GIVEN = Text("prévision", "forecast")
PANEL_HEIGHT = 190
GAP = 0.06  # between panels, a share of the figure
MOST_DATES = 5  # two figures stand side by side: more dates would be turned to find room


@dataclass(frozen=True, slots=True)
class Panel:
    """One channel of one forecast. `values` goes on to the end of the horizon; `given` are the quantiles of its last steps, in order."""

    name: Words
    values: Sequence[float]
    given: Sequence[Sequence[float]]


def forecasts(dates: Sequence[str], panels: Sequence[Panel], quantiles: Sequence[float], *, lang: Lang = "en") -> go.Figure:
    """A panel a channel, one above the other: the truth in grey, the forecast and its band in colour, a line where it begins."""
    fig = figure(lang, height=90 + PANEL_HEIGHT * max(1, len(panels)))
    fig.update_layout(showlegend=True, hovermode="x unified")
    horizon = len(panels[0].given[0]) if panels else 0
    ahead, start = list(dates[-horizon:]), len(dates) - horizon
    # plotly knows no French months; the second line of a label is drawn where it changes
    ticks = {"tickformat": "%H:%M\n%d/%m/%Y" if any(":" in date for date in dates) else "%d/%m\n%Y"} if lang == "fr" else {}
    room = {"nticks": MOST_DATES, "tickangle": 0}
    share = (1 - GAP * (len(panels) - 1)) / max(1, len(panels))
    for place, panel in enumerate(panels):
        axis = "" if place == 0 else str(place + 1)
        top = 1 - place * (share + GAP)
        last = place == len(panels) - 1
        fig.update_layout(
            {
                f"yaxis{axis}": {"domain": [max(0.0, top - share), top], "anchor": f"x{axis}", "title": {"text": plain(panel.name, lang)}},
                f"xaxis{axis}": {"anchor": f"y{axis}", "matches": "x", "showticklabels": last, "type": "date"} | ticks | room,
            }
        )
        shared = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "showlegend": place == 0}
        if len(quantiles) > 1:
            low, high = panel.given[0], panel.given[-1]
            name = f"{percent(quantiles[0], 0)[lang]} – {percent(quantiles[-1], 0)[lang]}"
            band = {"x": [*ahead, *ahead[::-1]], "y": [*high, *low[::-1]], "fill": "toself", "opacity": 0.3, "hoverinfo": "skip"}
            fig.add_trace(go.Scatter(**band, mode="none", fillcolor=SERIES["light"][0], name=name, legendgroup="band", **shared))
        middle = panel.given[list(quantiles).index(0.5) if quantiles else 0]
        truth = {"color": NEUTRAL, "width": 2}
        fig.add_trace(go.Scatter(x=list(dates), y=list(panel.values), mode="lines", line=truth, name=READ[lang], **shared))
        ours = {"color": SERIES["light"][0], "width": 2.5}
        fig.add_trace(go.Scatter(x=ahead, y=list(middle), mode="lines", line=ours, name=GIVEN[lang], **shared))
        if 0 < start < len(dates):
            line = {"dash": "dot", "color": NEUTRAL}
            fig.add_shape(
                type="line", x0=dates[start - 1], x1=dates[start - 1], y0=0, y1=1, xref=f"x{axis}", yref=f"y{axis} domain", line=line
            )
    return fig


@dataclass(frozen=True, slots=True)
class SeriesChoice:
    """One series to choose, with its own dates."""

    panel: Panel
    dates: Sequence[str]


def choose_series(choices: Sequence[SeriesChoice], quantiles: Sequence[float], *, lang: Lang = "en") -> go.Figure:
    """The forecast of one series, chosen from a list."""
    drawn = [forecasts(one.dates, [one.panel], quantiles, lang=lang) for one in choices]
    fig = drawn[0]
    buttons = [
        {
            "label": plain(one.panel.name, lang),
            "method": "update",
            "args": [
                {"x": [trace.x for trace in own.data], "y": [trace.y for trace in own.data]},
                {"yaxis.title.text": plain(one.panel.name, lang), "shapes": own.layout.shapes},
            ],
        }
        for one, own in zip(choices, drawn, strict=True)
    ]
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.05, "yanchor": "bottom", "showactive": True}
    return fig.update_layout(height=PANEL_HEIGHT + 130, updatemenus=[menu], showlegend=False, margin={"t": 60})


def error_by_step(curves: Mapping[Text, Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    """The squared error of each step of the horizon, a line a system; the first is ours."""
    title = Text("pas de l'horizon", "step of the horizon")[lang]
    error = Text("erreur quadratique moyenne", "mean squared error")[lang]
    fig = figure(lang, height=340, xaxis={"title": {"text": title}}, yaxis={"title": {"text": error}, "rangemode": "tozero"})
    fig.update_layout(showlegend=True)
    for place, (name, values) in enumerate(curves.items()):  # where two lines are one, a dash over a wide one shows both
        line = {"width": 2, "dash": DASHES[place % len(DASHES)]} if place else {"width": 5}
        fig.add_trace(go.Scatter(x=list(range(1, len(values) + 1)), y=list(values), mode="lines", line=line, name=plain(name, lang)))
    return fig


@dataclass(frozen=True, slots=True)
class ClassifiedSignal:
    """A signal, its predicted class and probability, and its location."""

    values: Sequence[float]
    name: str
    probability: float
    place: str


def signals(shown: Sequence[ClassifiedSignal], *, lang: Lang = "en") -> go.Figure:
    """Signals one above the other, each on a scale of its own."""
    fig = figure(lang, height=80 + 110 * max(1, len(shown)), showlegend=False, margin={"t": 36})  # room for the first name
    share = (1 - GAP * (len(shown) - 1)) / max(1, len(shown))
    for place, one in enumerate(shown):
        axis = "" if place == 0 else str(place + 1)
        top = 1 - place * (share + GAP)
        last = place == len(shown) - 1
        steps = {"anchor": f"y{axis}", "matches": "x", "showticklabels": last}
        if last:
            steps["title"] = {"text": Text("pas", "step")[lang]}
        domain = [max(0.0, top - share), top]
        fig.update_layout({f"yaxis{axis}": {"domain": domain, "anchor": f"x{axis}", "showticklabels": False}, f"xaxis{axis}": steps})
        hover = f"{plain(one.place, lang)}<extra></extra>"
        line = {"width": 1.8, "color": SERIES["light"][0]}
        fig.add_trace(go.Scatter(y=list(one.values), mode="lines", line=line, xaxis=f"x{axis}", yaxis=f"y{axis}", hovertemplate=hover))
        label = f"{plain(one.name, lang)} ({percent(one.probability, 0)[lang]})"
        fig.add_annotation(
            x=0, y=1, xref=f"x{axis} domain", yref=f"y{axis} domain", text=label, showarrow=False, xanchor="left", yanchor="bottom"
        )
    return fig
