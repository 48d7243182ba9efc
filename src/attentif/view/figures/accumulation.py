"""How errors add up when a model goes on from what it wrote itself, against going on from the truth.

If each token is right with probability 1 − ε whatever came before, a text of t tokens is wholly right with probability (1 − ε)ᵗ.
"""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from attentif.view.figures.axes import Axis, require_data
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.words import Lang, Text, W, percent

POSITION = Axis(Text("position dans le texte écrit", "position in the text written"))
RIGHT = Axis(Text("part de textes encore justes", "share of texts still right"), share=True, higher_is_better=True)


def error_accumulation(
    curves: Mapping[W, Sequence[float]], error: float | None = None, *, axis: Axis = RIGHT, lang: Lang = "en"
) -> go.Figure:
    """A share at each position, a line a system; with `error`, the law (1 − ε)ᵗ for comparison."""
    require_data([value for values in curves.values() for value in values], "errors need a position at least")
    bands = [Band(name, list(range(1, len(values) + 1)), values) for name, values in curves.items()]
    if error is not None:
        longest = max(map(len, curves.values()))
        law = Text("(1 − ε)ᵗ, ε = {e}", "(1 − ε)ᵗ, ε = {e}").with_(e=percent(error))
        bands.append(Band(law, list(range(1, longest + 1)), [(1 - error) ** t for t in range(1, longest + 1)], baseline=True))
    return banded_curves(bands, POSITION, axis, lang=lang)
