"""What a classifier gets right, what it mistakes for what, and whether it knows.

The calibration error compares, in bins of confidence, what the model announces with what happens (Guo et al. 2017, eq. 3):

    ECE = Σ_b  n_b / n · | acc_b - conf_b |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from attentif.view.figures.labels import distinct, percent_axis
from attentif.view.theme import NEUTRAL, figure
from attentif.view.words import Lang, Text, count, metric, percent

MOST_NUMBERED = 12  # classes; beyond, numbers no longer fit in the cells and are shown by the pointer
MOST_SHARES = 5  # classes; beyond, counts alone fit in the cells of a phone


def confusion_matrix(counts: ArrayLike, labels: Sequence[str], *, lang: Lang = "en") -> go.Figure:
    """Counts (C, C), a row a true class; the shade and the percentage are shares of the row."""
    table = np.asarray(counts, dtype=np.int64)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    cells = [
        [f"<b>{count(int(n))[lang]}</b><br>{percent(share)[lang]}" for n, share in zip(row, row_shares, strict=True)]
        for row, row_shares in zip(table, shares, strict=True)
    ]
    names = distinct(labels)
    numbered = len(names) <= MOST_NUMBERED
    true, predicted = Text("vraie classe", "true class")[lang], Text("classe prédite", "predicted class")[lang]
    fig = figure(
        lang,
        height=150 + (70 if numbered else 26) * max(2, len(names)),
        xaxis={"title": {"text": predicted}, "showgrid": False, "type": "category"},
        yaxis={"title": {"text": true}, "showgrid": False, "type": "category", "autorange": "reversed"},
        coloraxis={"showscale": False, "cmin": 0, "cmax": 1},
    )
    trace = go.Heatmap(x=names, y=names, z=shares, text=cells, coloraxis="coloraxis", xgap=2, ygap=2)
    if numbered:
        short = [[f"<b>{count(int(n))[lang]}</b>" for n in row] for row in table]
        trace.update(texttemplate="%{text}" if len(names) <= MOST_SHARES else "%{customdata}", customdata=short)
    colon = Text(" : ", ": ")[lang]
    trace.hovertemplate = f"{true}{colon}%{{y}}<br>{predicted}{colon}%{{x}}<br>%{{text}}<extra></extra>"
    return fig.add_trace(trace)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Mean confidence and accuracy by bins of confidence; nan in empty bins."""

    edges: NDArray[np.float64]  # (bins + 1,)
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def ece(self) -> float:
        if not self.counts.sum():
            return float("nan")
        gaps = np.abs(np.nan_to_num(self.accuracy - self.confidence))
        return float((self.counts * gaps).sum() / self.counts.sum())


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> Reliability:
    """Bin the probability given to the predicted class, and whether it was the true one."""
    p, hit = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.ceil(p * bins).astype(np.int64) - 1, 0, bins - 1)  # bins are open on the left: (0.9, 1]
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = lambda values: np.bincount(place, weights=values, minlength=bins) / counts
        return Reliability(edges, counts, mean(p), mean(hit))


def calibration(measured: Reliability, *, lang: Lang = "en") -> go.Figure:
    """Accuracy against confidence, the diagonal of perfect honesty, and how many examples stand in each bin."""
    confidence = Text("confiance annoncée", "announced confidence")[lang]
    axis: dict[str, Any] = {"range": [0, 102]} | percent_axis(lang)
    fig = figure(
        lang,
        height=440,
        xaxis={"title": {"text": confidence}, "anchor": "y2"} | axis,
        yaxis={"title": {"text": metric("accuracy").name[lang]}, "domain": [0.32, 1]} | axis,
        yaxis2={"title": {"text": Text("exemples", "examples")[lang]}, "domain": [0, 0.22]},
    )
    full = measured.counts > 0
    middle = 50 * (measured.edges[1:] + measured.edges[:-1])
    sizes = 6 + 12 * np.sqrt(measured.counts[full] / max(1, measured.counts.max()))  # a bin of one example must not shout
    examples = [f"{count(int(n))[lang]} {Text('exemples', 'examples')[lang]}" for n in measured.counts[full]]
    seen = go.Scatter(x=100 * measured.confidence[full], y=100 * measured.accuracy[full], text=examples, mode="lines+markers")
    seen.update(name=Text("modèle", "model")[lang], marker={"size": sizes, "line": {"width": 0}, "opacity": 1}, line={"width": 2.5})
    seen.hovertemplate = "%{x:.1f} → %{y:.1f}<br>%{text}<extra></extra>"
    fig.add_trace(seen)
    bars = go.Bar(x=middle, y=measured.counts, width=80 / len(middle), yaxis="y2", marker={"color": NEUTRAL}, showlegend=False)
    fig.add_trace(bars.update(hovertemplate="%{y}<extra></extra>"))
    honest = go.Scatter(x=[0, 100], y=[0, 100], mode="lines", line={"dash": "dot", "width": 1.5, "color": NEUTRAL}, hoverinfo="skip")
    fig.add_trace(honest.update(name=Text("calibration parfaite", "perfect calibration")[lang]))
    fig.add_annotation(x=3, y=97, xanchor="left", yanchor="top", showarrow=False, text=f"<b>ECE {percent(measured.ece)[lang]}</b>")
    return fig


def precision_recall(curves: Mapping[str, Sequence[Sequence[float]]], *, lang: Lang = "en") -> go.Figure:
    """Precision against recall at every threshold, a line a class; points are (recall, precision, threshold)."""
    axis: dict[str, Any] = {"range": [0, 102]} | percent_axis(lang)
    fig = figure(
        lang,
        height=420,
        xaxis={"title": {"text": metric("recall").name[lang]}} | axis,
        yaxis={"title": {"text": metric("precision").name[lang]}} | axis,
    )
    above = Text("à partir de", "from")[lang]
    for name, points in zip(distinct([*curves]), curves.values(), strict=True):
        recall, precision, threshold = zip(*points, strict=True)
        line = go.Scatter(x=[100 * x for x in recall], y=[100 * y for y in precision], mode="lines", name=name, line={"width": 2.5})
        said = [f"{above} p = {percent(value)[lang]}" for value in threshold]
        fig.add_trace(line.update(text=said, hovertemplate="%{x:.1f} → %{y:.1f}<br>%{text}", showlegend=True))
    return fig
