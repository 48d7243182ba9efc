"""What training did, step by step."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from attentif.view.figures.labels import metric_axis, metric_scale, plain
from attentif.view.theme import figure
from attentif.view.words import SPLITS, Lang, Text, metric

Points = Sequence[tuple[float, float]]  # (step, value)

STEP = Text("pas", "step")
FEW = 30  # points under which each one is marked


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Exponential mean over about `window` values, without the bias of its start (Kingma & Ba 2015, section 3).

    m_t = Σ_{i≤t} βᵗ⁻ⁱ x_i / Σ_{i≤t} βᵗ⁻ⁱ,   β = 1 - 1/window
    """
    beta = 1 - 1 / max(window, 1)
    total = weight = 0.0
    means = []
    for value in values:
        total, weight = beta * total + value, beta * weight + 1
        means.append(total / weight)
    return means


def _lines(points: Points, name: str, *, scale: float = 1.0) -> go.Scatter:
    steps, values = zip(*points, strict=True) if points else ((), ())
    mode = "lines+markers" if len(points) < FEW else "lines"
    return go.Scatter(x=steps, y=[value * scale for value in values], name=name, mode=mode, line={"width": 2.5})


def loss_curves(train: Points, valid: Points = (), *, lang: Lang = "en") -> go.Figure:
    """Training loss, raw and smoothed, beside the validation loss."""
    fig = figure(lang, xaxis={"title": {"text": STEP[lang]}}, yaxis={"title": {"text": metric("loss").name[lang]}}, hovermode="x unified")
    steps = [step for step, _ in train]
    smoothed = smooth([value for _, value in train], window=max(2, len(train) // 30))
    smooth_name = Text("apprentissage, lissée", "training, smoothed")[lang]
    fig.add_trace(_lines(list(zip(steps, smoothed, strict=True)), smooth_name))
    fig.add_trace(_lines(valid, SPLITS["valid"][lang]))
    raw = _lines(train, Text("apprentissage, brute", "training, raw")[lang])
    fig.add_trace(raw.update(mode="lines", line={"width": 1}, opacity=0.6, zorder=-1))
    return fig


def learning_rate(points: Points, *, lang: Lang = "en") -> go.Figure:
    """The learning rate that each step used."""
    title = Text("taux d’apprentissage", "learning rate")[lang]
    axis = {"title": {"text": title}, "exponentformat": "power", "rangemode": "tozero"}
    fig = figure(lang, height=300, xaxis={"title": {"text": STEP[lang]}}, yaxis=axis)
    return fig.add_trace(_lines(points, title))


def metric_curves(series: Mapping[str, Points], *, lang: Lang = "en") -> go.Figure:
    """One curve a metric, keyed by its name; shares are drawn as percentages, so do not mix them with others."""
    axis = metric_axis(metric(next(iter(series))), lang) if series else {}
    fig = figure(lang, height=320, xaxis={"title": {"text": STEP[lang]}}, yaxis=axis, showlegend=True, hovermode="x unified")
    for key, points in series.items():
        fig.add_trace(_lines(points, plain(metric(key).name, lang), scale=metric_scale(metric(key))))
    return fig
