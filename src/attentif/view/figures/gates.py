"""What the gates of a recurrent layer do, token after token."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.figures.labels import distinct
from attentif.view.words import Lang, Text, W

OPEN = Axis(Text("ouverture", "opening"))
TOKEN = Axis(Text("jeton", "token"))
MOST_NAMED = 60


def gates_over_time(tokens: Sequence[str], gates: Mapping[W, ArrayLike], *, title: Axis = OPEN, lang: Lang = "en") -> go.Figure:
    """The median over units (T, N) of each gate, and the middle half of the units around it."""
    require_data(tokens, "gates need a token at least")
    places = list(range(len(tokens)))
    bands = []
    for name, values in gates.items():
        table = np.asarray(values, dtype=np.float64).reshape(len(tokens), -1)
        low, middle, high = np.nanquantile(table, (0.25, 0.5, 0.75), axis=1)
        bands.append(Band(name, places, middle.tolist(), low.tolist(), high.tolist()))
    fig = banded_curves(bands, TOKEN, title, lang=lang)
    named = {"tickvals": places, "ticktext": distinct(tokens), "tickangle": -60} if len(tokens) <= MOST_NAMED else {}
    return fig.update_xaxes(**named)
