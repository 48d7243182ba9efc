"""Rows of pictures, each row under what it was asked for."""

import base64
import struct
from collections.abc import Sequence

import plotly.graph_objects as go

from attentif.view.figures.labels import plain
from attentif.view.theme import figure
from attentif.view.words import Lang

ROW = 62  # pixels of a row on the page


def drawings(rows: Sequence[tuple[str, str]], *, lang: Lang = "en") -> go.Figure:
    """One picture a row (a PNG data URI), with its name at the left; the rows have one scale."""
    sizes = [png_size(picture) for _, picture in rows]
    widest = max((width for width, _ in sizes), default=1)
    tops = [sum(height for _, height in sizes[:place]) for place in range(len(rows) + 1)]
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True}
    fig = figure(
        lang,
        height=40 + ROW * max(1, len(rows)),
        xaxis={"range": [0, widest], "visible": False} | axis,
        yaxis={
            "range": [max(tops[-1], 1), 0],
            "tickvals": [top + height / 2 for top, (_, height) in zip(tops, sizes, strict=False)],
            "ticktext": [plain(name, lang) for name, _ in rows],
            "scaleanchor": "x",
            "constrain": "domain",
        }
        | axis,
    )
    for (_, picture), top, (width, height) in zip(rows, tops, sizes, strict=False):
        fig.add_layout_image(source=picture, xref="x", yref="y", x=0, y=top, sizex=width, sizey=height, sizing="stretch", layer="above")
    corners = go.Scatter(x=[0, widest], y=[0, tops[-1]], mode="markers", marker={"opacity": 0}, hoverinfo="skip", showlegend=False)
    return fig.add_trace(corners)


def png_size(picture: str) -> tuple[int, int]:
    """Width and height that a PNG's own header tells."""
    width, height = struct.unpack(">II", base64.b64decode(picture.partition(",")[2][:44])[16:24])
    return width, height
