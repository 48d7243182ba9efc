"""A sound and when a model heard what in it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from attentif.view.figures.labels import distinct
from attentif.view.theme import figure
from attentif.view.words import Lang, Text


def sound_alignment(entry: Mapping[str, Any], *, lang: Lang = "en") -> go.Figure:
    """The spectrogram (`spectrogram`, mels × columns, 0 to 100, over `seconds`), and below it either the probability that something is said
    (`spoken`, of each frame, with `tokens` and the times they were heard) or where a decoder looked (`attention`, tokens × frames)."""
    picture, seconds = np.asarray(entry["spectrogram"], dtype=np.float32) / 100, float(entry["seconds"])
    texts = [token["text"] for token in entry["tokens"]]
    looked = "attention" in entry
    below = 30 + (22 * len(texts) if looked else 110)
    height = 190 + 60 + below
    split = below / (height - 60)
    lower: dict[str, Any] = {"type": "category", "autorange": "reversed"} if looked else {"range": [0, 1.25], "tickvals": [0, 0.5, 1]}
    title = Text("jeton écrit", "token written") if looked else Text("probabilité", "probability")
    fig = figure(
        lang,
        height=height,
        xaxis={"title": {"text": Text("temps (s)", "time (s)")[lang]}, "range": [0, seconds], "anchor": "y2", "showgrid": False},
        yaxis={"title": {"text": Text("bande mel", "mel band")[lang]}, "domain": [split + 0.04, 1], "showgrid": False},
        yaxis2={"title": {"text": title[lang]}, "domain": [0, split - 0.04], "showgrid": False, **lower},
        coloraxis={"cmin": 0, "cmax": 1, "showscale": False},
        showlegend=False,
    )
    fig.add_trace(_heat(picture, seconds, np.arange(1, len(picture) + 1)))
    if looked:
        fig.add_trace(_heat(np.asarray(entry["attention"], dtype=np.float32), seconds, distinct(texts)).update(yaxis="y2"))
        return fig
    spoken = np.asarray(entry["spoken"])
    step = seconds / len(spoken)
    fig.add_trace(
        go.Scatter(
            x=(np.arange(len(spoken)) + 0.5) * step,
            y=spoken,
            yaxis="y2",
            mode="lines",
            line={"shape": "hvh", "width": 2},
            fill="tozeroy",
            hovertemplate="%{x:.2f} s<br>%{y:.2f}<extra></extra>",
        )
    )
    middles = [(token["start"] + token["end"]) / 2 for token in entry["tokens"]]
    labels = go.Scatter(x=middles, y=[1.12] * len(texts), yaxis="y2", mode="text", text=texts, hoverinfo="skip")
    return fig.add_trace(labels)


def _heat(values: np.ndarray[Any, Any], seconds: float, rows: Any) -> go.Heatmap:
    """(rows, columns) over the whole time."""
    width = seconds / values.shape[1]
    return go.Heatmap(z=values, x0=width / 2, dx=width, y=rows, coloraxis="coloraxis", hovertemplate="%{x:.2f} s<br>%{y}<extra></extra>")
