"""Beam search as a tree: what was tried at each step, what was kept, what won."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from attentif.decode import BeamSearch
from attentif.view.figures.axes import require_data
from attentif.view.figures.labels import plain
from attentif.view.theme import LINE, MARKER, NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text, number


@dataclass(frozen=True, slots=True)
class BeamToken:
    """A token written after `parent` (its place in the list; None: the beginning), with the score of the whole up to here."""

    token: str
    parent: int | None
    score: float
    kept: bool = True
    chosen: bool = False  # part of the answer


def hypotheses_of(search: BeamSearch, name: Callable[[int], str]) -> list[BeamToken]:
    """The tree that a search kept (`search_trees(..., tree=True)`); its best text is the answer. `name` writes a token."""
    nodes = search.tree or []
    require_data(nodes, "the search kept no tree: search_trees(..., tree=True)")
    best = search.complete[0].log_prob
    place = next(place for place, node in enumerate(nodes) if node.fate == "complete" and node.log_prob == best)
    branch = set()
    while place >= 0:
        branch.add(place)
        place = nodes[place].parent
    return [
        BeamToken(name(node.token), node.parent if node.parent >= 0 else None, node.log_prob, node.fate != "dropped", place in branch)
        for place, node in enumerate(nodes)
    ]


def beam_tree(hypotheses: Sequence[BeamToken], *, lang: Lang = "en") -> go.Figure:
    """Steps from the left to the right; hypotheses given up end in grey, the answer is drawn thick."""
    require_data(hypotheses, "a beam needs a hypothesis at least")
    depth = _depths(hypotheses)
    height = _heights(hypotheses)
    kinds = {
        "chosen": (Text("la réponse", "the answer"), SERIES["light"][1], LINE + 1.5),
        "kept": (Text("gardée", "kept"), SERIES["light"][0], LINE),
        "dropped": (Text("abandonnée", "given up"), NEUTRAL, 1.5),
    }
    kind = ["chosen" if one.chosen else "kept" if one.kept else "dropped" for one in hypotheses]
    leaves = max(height) - min(height) + 1
    fig = figure(
        lang,
        height=int(100 + 52 * leaves),
        xaxis={"title": {"text": Text("pas", "step")[lang]}, "dtick": 1, "range": [-0.2, max(depth) + 0.9]},
        yaxis={"visible": False, "autorange": "reversed"},
        showlegend=True,
    )
    for name, (words, colour, width) in kinds.items():
        own = [place for place, one in enumerate(kind) if one == name]
        edges: list[tuple[float | None, float | None]] = []
        for place in own:
            parent = hypotheses[place].parent
            begin = (0.0, _root(height)) if parent is None else (float(depth[parent]), height[parent])
            edges += [begin, (float(depth[place]), height[place]), (None, None)]
        line = go.Scatter(x=[x for x, _ in edges], y=[y for _, y in edges], mode="lines", line={"color": colour, "width": width})
        fig.add_trace(line.update(hoverinfo="skip", showlegend=False))
        labels = [f"{plain(hypotheses[place].token, lang)}" for place in own]
        scores = [f"{label}<br>{number(hypotheses[place].score, 3)[lang]}" for place, label in zip(own, labels, strict=True)]
        dots = go.Scatter(x=[depth[p] for p in own], y=[height[p] for p in own], text=labels, customdata=scores, name=words[lang])
        dots.update(mode="markers+text", textposition="top center", marker={"color": colour, "size": MARKER})
        fig.add_trace(dots.update(hovertemplate="%{customdata}<extra></extra>"))
    return fig


def _depths(hypotheses: Sequence[BeamToken]) -> list[int]:
    depth: list[int] = []
    for place, one in enumerate(hypotheses):
        if one.parent is not None and not 0 <= one.parent < place:
            raise ValueError(f"hypothesis {place} comes before its parent {one.parent}")
        depth.append(1 if one.parent is None else depth[one.parent] + 1)
    return depth


def _heights(hypotheses: Sequence[BeamToken]) -> list[float]:
    """Leaves one under the other, a parent in the middle of its children."""
    children: list[list[int]] = [[] for _ in hypotheses]
    for place, one in enumerate(hypotheses):
        if one.parent is not None:
            children[one.parent].append(place)
    order = [place for place, one in enumerate(hypotheses) if one.parent is None][::-1]
    heights, leaf = [0.0] * len(hypotheses), 0
    while order:  # in depth, from the top
        place = order.pop()
        if not children[place]:
            heights[place] = leaf
            leaf += 1
        order += children[place][::-1]
    for place in reversed(range(len(hypotheses))):  # children come after their parents
        if children[place]:
            heights[place] = sum(heights[child] for child in children[place]) / len(children[place])
    return heights


def _root(heights: Sequence[float]) -> float:
    return (max(heights) + min(heights)) / 2
