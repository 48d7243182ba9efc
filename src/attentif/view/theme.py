"""Colours and fonts of figures, for light and dark screens.

Series take the colours of Okabe & Ito (2008), which stay apart for every common form of colour blindness; the lightened ones of the dark
theme keep their hue. Heat runs in lightness alone, from the paper to the ink, so that it survives grey printing and means the same to all.
"""

from typing import Any, Literal

import plotly.graph_objects as go

from attentif.view.words import THIN_SPACE, Lang

Scheme = Literal["light", "dark"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
FONT_SIZE = 15  # readable from the back of a room once projected

CLEAR = "rgba(0,0,0,0)"  # the page's own surface shows through
NEUTRAL = "#8A9099"  # what is there for comparison; seen on light and on dark

# In the order in which figures use them: ours or training, the other side, neutral, then the rest.
SERIES: dict[Scheme, list[str]] = {
    "light": ["#0072B2", "#D55E00", NEUTRAL, "#009E73", "#CC79A7", "#E69F00", "#56B4E9"],
    "dark": ["#56B4E9", "#F08A45", NEUTRAL, "#3CC49B", "#E0A3C4", "#F0C05A", "#A8D8F5"],
}
HEAT: dict[Scheme, list[str]] = {
    "light": ["#FFFFFF", "#D3E6F5", "#7FBCE6", "#0072B2", "#06304F"],
    "dark": ["#141A21", "#10364F", "#0072B2", "#7FBCE6", "#F2F9FF"],
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
    }
    scale = [[place / (len(HEAT[scheme]) - 1), colour] for place, colour in enumerate(HEAT[scheme])]
    whisker = {"color": INK[scheme], "thickness": 2, "width": 6}
    return {
        "data": {"bar": [{"error_x": whisker, "error_y": whisker}]},
        "layout": {
            "font": {"family": FONT, "size": FONT_SIZE, "color": INK[scheme]},
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "colorway": SERIES[scheme],
            "coloraxis": {"colorscale": scale, "colorbar": {"outlinewidth": 0, "thickness": 14}},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": FONT_SIZE, "color": INK[scheme]}, "bgcolor": SURFACE[scheme]},
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
            "modebar": {"bgcolor": CLEAR, "color": MUTED[scheme], "activecolor": INK[scheme]},
            "margin": {"l": 8, "r": 16, "t": 16, "b": 8},
        },
    }


def figure(lang: Lang, *, height: int = 380, **layout: Any) -> go.Figure:
    """An empty figure in the house style."""
    return go.Figure(layout={"template": template("light"), "separators": SEPARATORS[lang], "height": height, **layout})


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
