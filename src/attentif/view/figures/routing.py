"""Where a mixture of experts sends its tokens."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from attentif.view.figures.axes import require_data
from attentif.view.figures.heat import heat_map
from attentif.view.words import Lang, Text

EXPERT = Text("expert", "expert")


def expert_shares(shares: Mapping[str, Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    """The share of the choices that fell on each expert, a row a layer; equal shares are one shade."""
    require_data(list(shares), "a routing needs a layer at least")
    width = max(map(len, shares.values()))
    table = [[*values, *[float("nan")] * (width - len(values))] for values in shares.values()]
    return heat_map(table, list(shares), _numbers(width), (Text("couche", "layer"), EXPERT), lang=lang)


def token_routing(tokens: Sequence[str], chosen: ArrayLike, weights: ArrayLike, experts: int, *, lang: Lang = "en") -> go.Figure:
    """Which experts each token went to, (T, k), and with what weight: a row a token, a column an expert."""
    picked, weighed = np.asarray(chosen, dtype=np.int64), np.asarray(weights, dtype=np.float64)
    require_data(tokens, "a routing needs a token at least")
    table = np.zeros((len(tokens), experts))
    np.put_along_axis(table, picked, weighed, axis=1)
    return heat_map(table, tokens, _numbers(experts), (Text("jeton", "token"), EXPERT), lang=lang)


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]
