"""How the score changes with the length of what is read."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.view.blocks import Score
from attentif.view.figures.labels import metric_axis, metric_scale, plain
from attentif.view.figures.scores import format_score, whiskers
from attentif.view.theme import figure
from attentif.view.words import IN_TOKENS, Lang, Text, count, metric

SMALL = 12  # five spans and their counts fit side by side on a phone


@dataclass(frozen=True, slots=True)
class Bucket:
    """The examples whose length is between `low` and `high`, both included."""

    low: int
    high: int
    score: Score
    examples: int


def by_length(metric_key: str, buckets: Sequence[Bucket], unit: Text = IN_TOKENS, *, lang: Lang = "en") -> go.Figure:
    """The score of short and of long examples, with the number of examples under each bar."""
    of = metric(metric_key)
    scale = metric_scale(of)
    spans = [str(b.low) if b.low == b.high else f"{b.low}–{b.high}" for b in buckets]
    names = [f"{span}<br>n = {count(b.examples)[lang]}" for span, b in zip(spans, buckets, strict=True)]
    labels = [format_score(b.score, of)[lang] for b in buckets]
    length = Text(f"longueur ({unit.fr})", f"length ({unit.en})")
    fig = figure(
        lang,
        height=340,
        xaxis={"title": {"text": length[lang]}, "type": "category", "tickangle": 0, "tickfont": {"size": SMALL}},
        yaxis={"title": {"text": plain(of.name, lang)}, "rangemode": "tozero"} | metric_axis(of, lang),
    )
    bars = go.Bar(x=names, y=[scale * b.score.value for b in buckets], customdata=labels, hovertemplate="%{customdata}<extra></extra>")
    return fig.add_trace(bars.update(error_y=whiskers([b.score for b in buckets], scale), width=0.6))
