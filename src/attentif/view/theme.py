"""Colours and fonts of figures, for light and dark screens.

Series take the colours of Okabe & Ito (2008), which stay apart for every common form of colour blindness; the lightened ones of the dark
theme keep their hue. Heat runs in lightness alone, from the paper to the ink, so that it survives grey printing and means the same to all.
"""

from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go

from attentif.view.words import THIN_SPACE, Lang

Scheme = Literal["light", "dark"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
FONT_SIZE = 15  # readable from the back of a room once projected
LINE, THIN_LINE = 2.5, 1.5  # widths of what the figure is about, and of what it is compared with
MARKER, SMALL_MARKER = 9, 5
BAND = 0.22  # opacity of what surrounds a curve: two of them crossed stay apart

CLEAR = "rgba(0,0,0,0)"  # the page's own surface shows through
NEUTRAL = "#8A9099"  # what is there for comparison; seen on light and on dark

# In the order in which figures use them: ours or training, the other side, neutral, then the rest.
SERIES: dict[Scheme, list[str]] = {
    "light": ["#0072B2", "#D55E00", NEUTRAL, "#009E73", "#CC79A7", "#E69F00", "#56B4E9"],
    "dark": ["#56B4E9", "#F08A45", NEUTRAL, "#3CC49B", "#E0A3C4", "#F0C05A", "#A8D8F5"],
}
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon")  # told apart without colours
DASHES = ("solid", "dash", "dot", "dashdot")  # once all colours have been used
HEAT: dict[Scheme, list[str]] = {
    "light": ["#FFFFFF", "#D3E6F5", "#7FBCE6", "#0072B2", "#06304F"],
    "dark": ["#141A21", "#10364F", "#0072B2", "#7FBCE6", "#F2F9FF"],
}
# values of either sign: vermilion below, the paper at zero, blue above, both sides as dark as each other
SIGNED: dict[Scheme, list[str]] = {
    "light": ["#7A2E00", "#D55E00", "#F5C3A0", "#FFFFFF", "#A9D3EE", "#0072B2", "#06304F"],
    "dark": ["#FFE3D0", "#F08A45", "#7A3A10", "#141A21", "#10466B", "#56B4E9", "#EAF6FF"],
}
INK: dict[Scheme, str] = {"light": "#1C232B", "dark": "#E6EAEF"}
MUTED: dict[Scheme, str] = {"light": "#59636E", "dark": "#A3ADB8"}
GRID: dict[Scheme, str] = {"light": "#DDE2E8", "dark": "#333C47"}
SURFACE: dict[Scheme, str] = {"light": "#FFFFFF", "dark": "#141A21"}
RAISED: dict[Scheme, str] = {"light": "#F3F5F8", "dark": "#1E262F"}
OTHER_TEXT: dict[Scheme, str] = {"light": "#AD4A00", "dark": "#F08A45"}  # as text, the vermilion of light pages must be darker

SEPARATORS: dict[Lang, str] = {"fr": f",{THIN_SPACE}", "en": ".,"}


def template(scheme: Scheme) -> dict[str, Any]:
    """A plotly template: all that depends on the scheme is here, so that a page changes scheme by changing template."""
    axis = {
        "gridcolor": GRID[scheme],
        "zerolinecolor": GRID[scheme],
        "linecolor": GRID[scheme],
        "automargin": True,
        "title": {"standoff": 12},
        "ticklabelstandoff": 4,
        "tickcolor": GRID[scheme],
        "exponentformat": "SI",  # 3 G, as everywhere else; not 3B
    }
    bar = {"outlinewidth": 0, "thickness": 14}
    whisker = {"color": INK[scheme], "thickness": 2, "width": 6}
    return {
        "data": {"bar": [{"error_x": whisker, "error_y": whisker}]},
        "layout": {
            "font": {"family": FONT, "size": FONT_SIZE, "color": INK[scheme]},
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "colorway": SERIES[scheme],
            "coloraxis": {"colorscale": _scale(HEAT[scheme]), "colorbar": bar},
            "coloraxis2": {"colorscale": _scale(SIGNED[scheme]), "colorbar": bar, "cmid": 0},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": FONT_SIZE, "color": INK[scheme]}, "bgcolor": SURFACE[scheme]},
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
            "modebar": {"bgcolor": CLEAR, "color": MUTED[scheme], "activecolor": INK[scheme]},
            "margin": {"l": 8, "r": 16, "t": 16, "b": 8},
        },
    }


def _scale(colours: list[str]) -> list[list[Any]]:
    return [[place / (len(colours) - 1), colour] for place, colour in enumerate(colours)]


def figure(lang: Lang, *, height: int = 380, **layout: Any) -> go.Figure:
    """An empty figure in the house style."""
    return go.Figure(layout={"template": template("light"), "separators": SEPARATORS[lang], "height": height, **layout})


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several series is drawn, whatever traces it is made of. Pages change the colour with the scheme."""

    colour: str
    symbol: str
    dash: str


def look(place: int) -> Look:
    """The series of this number: a colour and a symbol of its own, and other dashes once the colours come again. None is neutral."""
    colours = [colour for colour in SERIES["light"] if colour != NEUTRAL]
    return Look(colours[place % len(colours)], SYMBOLS[place % len(SYMBOLS)], DASHES[place // len(colours) % len(DASHES)])


def recolour(scheme: Scheme) -> dict[str, str]:
    """What the colours that a figure names become in that scheme."""
    return dict(zip(SERIES["light"], SERIES[scheme], strict=True)) | {INK["light"]: INK[scheme], MUTED["light"]: MUTED[scheme]}


def css_variables(scheme: Scheme) -> str:
    """The same colours, for the style sheet of a page."""
    ours, other = SERIES[scheme][:2]
    channels = lambda colour: " ".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    values = {
        "ink": INK[scheme],
        "muted": MUTED[scheme],
        "line": GRID[scheme],
        "surface": SURFACE[scheme],
        "raised": RAISED[scheme],
        "ours": ours,
        "ours-text": ours,
        "ours-rgb": channels(ours),
        "other": other,
        "other-text": OTHER_TEXT[scheme],
        "other-rgb": channels(other),
        "font": FONT,
    }
    values |= {f"heat-{place}": colour for place, colour in enumerate(HEAT[scheme])}
    return " ".join(f"--{name}: {value};" for name, value in values.items())
