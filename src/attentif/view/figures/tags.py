"""What became of the entities of a text, type by type."""

from collections.abc import Mapping

import plotly.graph_objects as go

from attentif.view.figures.labels import distinct
from attentif.view.theme import NEUTRAL, SERIES, figure
from attentif.view.words import Lang, Text, count

# in the order in which the bars are stacked; the last ones are no entity at all
FATES = {
    "right": Text("juste", "right"),
    "border": Text("mal délimitée", "wrong borders"),
    "type": Text("autre type", "other type"),
    "missed": Text("manquée", "missed"),
    "invented": Text("inventée", "invented"),
}
COLOURS = {"right": 0, "border": 6, "type": 5, "missed": 1}


def entity_fates(types: Mapping[str, Mapping[str, int]], *, lang: Lang = "en") -> go.Figure:
    """A bar a type: the entities found, found in part, taken for another type, missed; and, to the left, those made up."""
    names = distinct(list(types))
    fig = figure(
        lang,
        height=130 + 46 * max(2, len(names)),
        barmode="relative",
        xaxis={"title": {"text": Text("entités", "entities")[lang]}},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
    )
    for fate, words in FATES.items():
        values = [own.get(fate, 0) for own in types.values()]
        shown = [f"{count(value)[lang]} {words[lang]}" for value in values]
        bar = go.Bar(y=names, x=[-v if fate == "invented" else v for v in values], orientation="h", name=words[lang], customdata=shown)
        bar.update(marker={"color": NEUTRAL if fate == "invented" else SERIES["light"][COLOURS[fate]]}, width=0.6)
        fig.add_trace(bar.update(hovertemplate="%{y}<br>%{customdata}<extra></extra>"))
    return fig
