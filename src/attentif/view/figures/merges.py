"""How byte-pair encoding puts a word together: at each step the pair that was learned first becomes one piece (Sennrich et al. 2016)."""

from collections.abc import Sequence
from itertools import pairwise

import plotly.graph_objects as go

from attentif.view.figures.axes import require_data
from attentif.view.figures.labels import plain
from attentif.view.theme import CLEAR, FONT_SIZE, LINE, NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text

ROW = 46  # pixels


def merge_steps(pieces: Sequence[str], merges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The word after each merge, from its characters to its tokens; `merges` in the order in which they were learned."""
    rank = {pair: number for number, pair in enumerate(merges)}
    steps = [list(pieces)]
    while True:
        word = steps[-1]
        known = [(rank[pair], place) for place, pair in enumerate(pairwise(word)) if pair in rank]
        if not known:
            return steps
        pair = merges[min(known)[0]]
        joined: list[str] = []
        for piece in word:  # every place of that pair, from the left
            if joined and (joined[-1], piece) == pair:
                joined[-1] = joined[-1] + piece
            else:
                joined.append(piece)
        steps.append(joined)


def bpe_merges(steps: Sequence[Sequence[str]], *, lang: Lang = "en") -> go.Figure:
    """A row a step, a box a piece as wide as it is long; what the step has just joined is in colour."""
    require_data([piece for step in steps for piece in step], "merges need a word of a piece at least")
    width = max(sum(map(len, step)) for step in steps)
    fig = figure(
        lang,
        height=70 + ROW * len(steps),
        xaxis={"visible": False, "range": [-0.1, width + 0.1]},
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
            "tickvals": list(range(len(steps))),
            "title": {"text": Text("fusions", "merges")[lang]},
        },
        showlegend=False,
    )
    before: set[tuple[int, str]] = set()
    places, texts, rows = [], [], []
    for row, step in enumerate(steps):
        start, now = 0, set[tuple[int, str]]()
        for piece in step:
            now.add((start, piece))
            fresh = row > 0 and (start, piece) not in before
            edge = {"color": SERIES["light"][1] if fresh else NEUTRAL, "width": LINE if fresh else 1}
            fig.add_shape(
                type="rect", x0=start + 0.04, x1=start + len(piece) - 0.04, y0=row - 0.36, y1=row + 0.36, line=edge, fillcolor=CLEAR
            )
            places.append(start + len(piece) / 2)
            texts.append(plain(piece, lang))
            rows.append(row)
            start += len(piece)
        before = now
    labels = go.Scatter(x=places, y=rows, text=texts, mode="text", textfont={"size": FONT_SIZE + 1}, hoverinfo="skip")
    return fig.add_trace(labels)
