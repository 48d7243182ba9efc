"""A run against its baselines."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from attentif.view.blocks import Contender, Score
from attentif.view.figures.labels import metric_axis, metric_scale, plain
from attentif.view.theme import NEUTRAL, figure
from attentif.view.words import THIN_SPACE, Lang, Metric, Number, metric

BAR_HEIGHT = 74  # a bar and its name above it
LABEL = 38  # characters of a line of that name: a phone shows no more, and there is room for two lines


def format_score(score: Score, of: Metric, between: str = " ") -> Number:
    """A score with its interval: 97.3% [96.8; 97.9]."""
    if score.low is None or score.high is None:
        return of.write(score.value)
    value, *bounds = of.write_alike([score.value, score.low, score.high])
    bare = lambda lang: [bound[lang].rstrip(f"%{THIN_SPACE}") for bound in bounds]
    return Number(f"{value.fr}{between}[{' ; '.join(bare('fr'))}]", f"{value.en}{between}[{'; '.join(bare('en'))}]")


def sort_best_first(systems: Sequence[Contender], of: Metric) -> list[Contender]:
    """The best first; those without that score last."""
    sign = -1 if of.higher_is_better else 1
    return sorted(systems, key=lambda system: sign * system.scores[of.key].value if of.key in system.scores else float("inf"))


def whiskers(scores: Sequence[Score], scale: float) -> dict[str, Any]:
    """Error bars; none if no bar has an interval, of zero length for a bar without one (plotly reads null as 0)."""
    if all(score.low is None and score.high is None for score in scores):
        return {"visible": False}
    above = [0.0 if score.high is None else scale * (score.high - score.value) for score in scores]
    below = [0.0 if score.low is None else scale * (score.value - score.low) for score in scores]
    return {"array": above, "arrayminus": below, "symmetric": False}


def _bars(of: Metric, rows: Sequence[tuple[int, Contender]], *, lang: Lang) -> go.Bar:
    """The bars of one colour, with their intervals as whiskers."""
    scale = metric_scale(of)
    scores = [contender.scores[of.key] for _, contender in rows]
    return go.Bar(
        x=[scale * score.value for score in scores],
        y=[row for row, _ in rows],
        orientation="h",
        width=0.3,
        error_x=whiskers(scores, scale),
        customdata=[
            f"{plain(contender.name, lang)}: {format_score(score, of)[lang]}" for (_, contender), score in zip(rows, scores, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )


def contenders(metric_key: str, systems: Sequence[Contender], *, lang: Lang = "en") -> go.Figure:
    """Bars from zero, the best on top, ours in colour, each with its interval; systems without that score are left out."""
    of = metric(metric_key)
    rows = [system for system in sort_best_first(systems, of) if metric_key in system.scores][
        ::-1
    ]  # plotly draws the first row at the bottom
    span = {"range": [0, 101]} if of.share else {}
    fig = figure(
        lang,
        height=(70 if of.higher_is_better else 90) + BAR_HEIGHT * max(1, len(rows)),
        xaxis={"title": {"text": plain(of.name_with_direction("\n"), lang).replace("\n", "<br>")}, "rangemode": "tozero"}
        | span
        | metric_axis(of, lang),
        yaxis={"visible": False, "range": [-0.5, len(rows) - 0.25]},
        margin={"l": 20, "r": 26},  # half of the labels of both ends of the axis
    )
    places = list(enumerate(rows))
    fig.add_trace(_bars(of, [place for place in places if place[1].ours], lang=lang))
    others = _bars(of, [place for place in places if not place[1].ours], lang=lang)
    fig.add_trace(others.update(marker={"color": NEUTRAL}))
    for row, system in places:  # the name stands above its bar, so that it needs no margin on a phone
        label = f"{'<br>'.join(wrap(plain(system.name, lang), LABEL))}  <b>{of.write(system.scores[metric_key].value)[lang]}</b>"
        fig.add_annotation(x=0, y=row + 0.16, text=label, xanchor="left", yanchor="bottom", showarrow=False, align="left")
    return fig
