"""Pictures: errors as a gallery, and attention as shades over the picture that is looked at.

Rollout follows attention from the last layer down to the patches, half of each layer's output being its input (Abnar & Zuidema 2020):

    R_l = (½ Ā_l + ½ I) R_{l-1},   R_0 = I,   Ā_l the mean over heads
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from attentif.extras import require_extra
from attentif.view.blocks import AttentionMaps, FigureBlock, Picture
from attentif.view.figures.labels import plain
from attentif.view.theme import SERIES, figure
from attentif.view.words import Lang, Text, Words, percent

COLUMNS = 8  # pictures in a row of a gallery
CELL = 118  # pixels of one, its caption included
TILE = 84  # pixels of a picture's longer side in a mosaic, about
GAP = 4
MOST_WORDS = 24  # of a text, each with a picture of its own

Floats = NDArray[np.floating[Any]]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture of a gallery: its address (a PNG data URI), what is said of it, how sure that is, where it comes from."""

    picture: str
    caption: str
    probability: float | None = None
    place: str = ""


def gallery(shown: Sequence[Shown], *, lang: Lang = "en") -> go.Figure:
    """Pictures in rows, each above its caption; the pointer tells where it comes from."""
    columns = max(1, min(COLUMNS, len(shown)))
    rows = -(-len(shown) // columns)
    hidden = {"visible": False, "fixedrange": True}
    fig = figure(
        lang, height=24 + CELL * max(1, rows), xaxis={"range": [-0.5, COLUMNS - 0.5]} | hidden, yaxis={"range": [0.5 - rows, 0.6]} | hidden
    )
    fig.update_layout(margin={"l": 0, "r": 0, "t": 8, "b": 16})
    x, y = [place % columns for place in range(len(shown))], [-(place // columns) for place in range(len(shown))]
    for column, row, one in zip(x, y, shown, strict=True):
        where = {"x": column, "y": row + 0.5, "sizex": 0.9, "sizey": 0.68, "xanchor": "center", "yanchor": "top"}
        fig.add_layout_image(source=one.picture, xref="x", yref="y", **where)
        sure = "" if one.probability is None else f"<br>{percent(one.probability)[lang]}"
        fig.add_annotation(x=column, y=row - 0.2, yanchor="top", text=plain(one.caption, lang) + sure, showarrow=False, font={"size": 12})
    names = [plain(one.place, lang) for one in shown]
    middle = go.Scatter(x=x, y=[row + 0.16 for row in y], text=names, mode="markers", marker={"size": 50, "opacity": 0}, showlegend=False)
    return fig.add_trace(middle.update(hovertemplate="%{text}<extra></extra>"))


# ------------------------------------------------------------------------------------------------------------- overlays


def overlay_blocks(maps: AttentionMaps) -> list[FigureBlock]:
    """What can be shown over the picture of these maps: by word where a text looks at it, else by layer and head, and rolled out."""
    picture = maps.picture
    assert picture is not None
    if maps.columns is not None:
        about = Text(
            "Là où regarde chaque mot : moyenne des couches et des têtes, du plus clair au plus coloré.",
            "Where each word looks: mean over layers and heads; the more coloured, the more attention.",
        )
        return [
            FigureBlock(
                Text("Les mots sur l’image", "Words over the picture"), partial(word_overlay, picture, maps.rows, maps.weights), about
            )
        ]
    who = (
        Text("le jeton de classe", "the class token")
        if picture.first
        else Text("l’ensemble des carrés, en moyenne,", "all patches, on average,")
    )
    about = Text(
        "Là où regarde {who} : une ligne par couche, une colonne par tête ; chaque vignette a sa propre échelle.",
        "Where {who} looks: a row a layer, a column a head; each picture has a scale of its own.",
    ).with_(who=who)
    blocks = [FigureBlock(Text("L’attention sur l’image", "Attention over the picture"), partial(overlay, picture, maps.weights), about)]
    if from_the_first(list(maps.weights)):
        rolled = Text(
            "L’image, puis ce que l’on en garde en suivant l’attention de couche en couche (rollout, Abnar et Zuidema 2020).",
            "The picture, then what is kept of it when attention is followed from layer to layer (rollout, Abnar and Zuidema 2020).",
        )
        blocks.append(
            FigureBlock(Text("De couche en couche", "From layer to layer"), partial(rollout_overlay, picture, maps.weights), rolled)
        )
    return blocks


def overlay(picture: Picture, weights: Mapping[str, Floats], *, lang: Lang = "en") -> go.Figure:
    """Where the class token looks (or all patches, on average): a row a layer, a column a head."""
    tiles = [[_over(picture, _attended_patches(picture, head)) for head in layer] for layer in weights.values()]
    heads = max((len(row) for row in tiles), default=0)
    return _mosaic(tiles, [str(head) for head in range(1, heads + 1)], list(weights), Text("tête", "head"), lang=lang)


def rollout_overlay(picture: Picture, weights: Mapping[str, Floats], *, lang: Lang = "en") -> go.Figure:
    """The picture itself, then attention rolled out to each layer."""
    tiles = [_over(picture, np.zeros(picture.grid))] + [_over(picture, _attended_patches(picture, rolled)) for rolled in rollout(weights)]
    names: list[Words] = [Text("image", "picture"), *(str(layer) for layer in range(1, len(weights) + 1))]
    return _mosaic([tiles], names, [""], Text("couche", "layer"), lang=lang)


def word_overlay(picture: Picture, words: Sequence[str], weights: Mapping[str, Floats], *, lang: Lang = "en") -> go.Figure:
    """Where each word (a row of the maps) looks: mean over layers and heads."""
    mean = np.mean([np.asarray(layer).mean(0) for layer in weights.values()], axis=0)
    tiles = [_over(picture, _patches(picture, row)) for row in mean[:MOST_WORDS]]
    rows = [tiles[start : start + COLUMNS] for start in range(0, len(tiles), COLUMNS)]
    fig = _mosaic(rows, [""] * COLUMNS, [""] * len(rows), "", lang=lang, below=24)
    height, width = tiles[0].shape[:2]
    for place, word in enumerate(words[: len(tiles)]):
        row, column = divmod(place, COLUMNS)
        x, y = column * (width + GAP) + width / 2, row * (height + GAP + 24) + height
        fig.add_annotation(x=x, y=y, yanchor="top", text=plain(word, lang), showarrow=False, font={"size": 12})
    return fig


def rollout(weights: Mapping[str, Floats]) -> list[Floats]:
    """R_l of every layer, (T, T)."""
    found: list[Floats] = []
    for layer in weights.values():
        mean = np.asarray(layer, dtype=np.float64).mean(0)
        step = 0.5 * mean + 0.5 * np.eye(len(mean))
        found.append(step @ found[-1] if found else step)
    return found


def from_the_first(names: Sequence[str]) -> bool:
    """Whether the layers, by the numbers in their names, are all there up to the last one shown."""
    numbers = [int(match[1]) for name in names if (match := re.search(r" (\d+)( |$)", name))]
    return numbers == list(range(1, len(names) + 1))


def _attended_patches(picture: Picture, weights: Floats) -> Floats:
    """(rows, columns) of patches: the class token's row of (T, T), or the mean of all rows."""
    return _patches(picture, weights[0] if picture.first else np.asarray(weights).mean(0))


def _patches(picture: Picture, row: Floats) -> Floats:
    rows, columns = picture.grid
    return np.asarray(row, dtype=np.float64)[picture.first : picture.first + rows * columns].reshape(rows, columns)


def _over(picture: Picture, heat: Floats) -> Bytes:
    """The picture in grey and pale, coloured where the heat is: (H, W, 3) bytes of about TILE pixels."""
    pixels = picture.pixels if picture.pixels.ndim == 3 else np.repeat(picture.pixels[..., None], 3, 2)
    longest = max(pixels.shape[:2])
    factor, step = max(1, round(TILE / longest)), max(1, round(longest / TILE))
    base = pixels[::step, ::step].repeat(factor, 0).repeat(factor, 1).astype(np.float64)
    height, width = base.shape[:2]
    rows, columns = heat.shape
    spread = heat[np.arange(height) * rows // height][:, np.arange(width) * columns // width]
    shade = 0.75 * spread / max(float(heat.max()), 1e-9)
    colour = np.array([int(SERIES["light"][1][place : place + 2], 16) for place in (1, 3, 5)])
    blended = base + shade[..., None] * (colour - base)
    return np.rint(np.clip(blended, 0, 255)).astype(np.uint8)


def _mosaic(
    tiles: Sequence[Sequence[Bytes]], columns: Sequence[Words], rows: Sequence[Words], title: Words, *, lang: Lang, below: int = 0
) -> go.Figure:
    """Pictures of one size side by side, as one image; `below` each there is room for a caption."""
    height, width = tiles[0][0].shape[:2] if tiles and tiles[0] else (1, 1)
    across, down = width + GAP, height + GAP + below
    whole = np.zeros((len(tiles) * down, max(map(len, tiles), default=1) * across, 4), np.uint8)  # transparent between the pictures
    for r, row in enumerate(tiles):
        for c, tile in enumerate(row):
            whole[r * down : r * down + height, c * across : c * across + width] = np.dstack(
                [tile, np.full((height, width), 255, np.uint8)]
            )
    axis = {"showgrid": False, "zeroline": False, "constrain": "domain", "fixedrange": True}
    fig = figure(
        lang,
        height=70 + whole.shape[0],
        xaxis={
            "title": {"text": plain(title, lang)},
            "tickvals": [c * across + width / 2 for c in range(len(columns))],
            "ticktext": [plain(name, lang) for name in columns],
            "side": "top",
        }
        | axis,
        yaxis={"tickvals": [r * down + height / 2 for r in range(len(rows))], "ticktext": [plain(name, lang) for name in rows]} | axis,
    )
    return fig.add_trace(go.Image(source=_png(whole), hoverinfo="skip"))


def _png(pixels: Bytes) -> str:
    require_extra("PIL")
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
