"""How long the texts are, and how the score changes with their length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.labels import metric_axis, metric_scale, plain
from attentif.view.figures.scores import whiskers, written
from attentif.view.theme import NEUTRAL, figure
from attentif.view.words import IN_TOKENS, Lang, Text, W, count, metric, split_name

LONGEST_SHOWN = 99.5  # percentile: one very long text must not crush all the others


def length_histogram(lengths: Mapping[W, Sequence[int]], limit: int | None = None, *, lang: Lang = "en", bins: int = 40) -> go.Figure:
    """The share of texts of each length, a line a split; `limit` is where they are cut."""
    share = Text("part des textes (%)", "share of texts (%)")[lang]
    fig = figure(
        lang, height=320, xaxis={"title": {"text": length_in(IN_TOKENS)[lang]}}, yaxis={"title": {"text": share}, "rangemode": "tozero"}
    )
    fig.update_layout(showlegend=True)
    known = [np.asarray(values) for values in lengths.values() if len(values)]
    if not known:
        return fig
    longest = int(np.ceil(max(np.percentile(values, LONGEST_SHOWN) for values in known)))
    width = max(1, -(-longest // bins))
    edges = np.arange(0, longest + 2 * width, width)
    for name, values in lengths.items():
        counts, _ = np.histogram(np.minimum(values, edges[-1]), edges)
        words = split_name(name) if isinstance(name, str) else name
        label = f"{plain(words, lang)} ({count(len(values))[lang]})"
        fig.add_trace(
            go.Scatter(x=edges[:-1], y=100 * counts / max(1, len(values)), name=label, mode="lines", line={"shape": "hv", "width": 2.5})
        )
    if limit is not None and limit <= edges[-1]:
        cut = Text(f"coupés à {limit}", f"cut at {limit}")[lang]
        fig.add_vline(x=limit, line={"dash": "dash", "color": NEUTRAL}, annotation={"text": cut, "xanchor": "right"})
    return fig


@dataclass(frozen=True, slots=True)
class Bucket:
    """The examples whose length is between `low` and `high`, both included."""

    low: int
    high: int
    score: Score
    examples: int


def length_in(unit: Text) -> Text:
    return Text(f"longueur ({unit.fr})", f"length ({unit.en})")


def by_length(metric_key: str, buckets: Sequence[Bucket], unit: Text = IN_TOKENS, *, lang: Lang = "en") -> go.Figure:
    """The score of short and of long examples, with the number of examples under each bar."""
    of = metric(metric_key)
    scale = metric_scale(of)
    spans = [str(b.low) if b.low == b.high else f"{b.low}–{b.high}" for b in buckets]
    names = [f"{span}<br>n = {count(b.examples)[lang]}" for span, b in zip(spans, buckets, strict=True)]
    labels = [written(b.score, of)[lang] for b in buckets]
    fig = figure(
        lang,
        height=340,
        xaxis={"title": {"text": length_in(unit)[lang]}, "type": "category"},
        yaxis={"title": {"text": plain(of.name, lang)}, "rangemode": "tozero"} | metric_axis(of, lang),
    )
    bars = go.Bar(x=names, y=[scale * b.score.value for b in buckets], customdata=labels, hovertemplate="%{customdata}<extra></extra>")
    return fig.add_trace(bars.update(error_y=whiskers([b.score for b in buckets], scale), width=0.6))
