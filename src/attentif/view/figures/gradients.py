"""How gradients travel: through the layers of a stack, and back through time."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from attentif.view.figures.axes import DISTANCE, Axis, require_data
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.words import Lang, Text, W

NORM = Axis(Text("norme du gradient", "norm of the gradient"), log=True)
LAYER = Axis(Text("sous-couche, de l’entrée à la sortie", "sublayer, from input to output"))


def gradient_flow(layers: Sequence[str], norms: Mapping[W, Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    """The norm of each layer's gradient, a line for each model, step or initialisation; a layer without one leaves a gap."""
    require_data(layers, "gradient flow needs a layer at least")
    places = list(range(1, len(layers) + 1))
    fig = banded_curves([Band(name, places, values) for name, values in norms.items()], LAYER, NORM, lang=lang)
    return fig.update_xaxes(tickvals=places, ticktext=list(layers), tickangle=-45)


def gradient_by_distance(curves: Mapping[W, Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    """|∂y_T / ∂x_t| against T − t: entry d of a curve is what a token d places back still weighs. A straight line is exponential decay."""
    require_data([value for values in curves.values() for value in values], "gradients by distance need a value at least")
    axis = Axis(Text("norme de ∂y_T / ∂x_t", "norm of ∂y_T / ∂x_t"), log=True)
    return banded_curves([Band(name, list(range(len(values))), values) for name, values in curves.items()], DISTANCE, axis, lang=lang)
