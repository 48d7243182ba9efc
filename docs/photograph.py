"""Pictures of figures for these pages, taken by a headless Chromium."""

import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image

from attentif.view.theme import SURFACE

WIDTH, GAP = 860, 20


def photograph(figures: dict[str, go.Figure], folder: Path) -> None:
    """A picture of each figure in the folder, under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in _pictures(figures).items():
        picture.save(folder / f"{name}.png", optimize=True)


def _pictures(figures: dict[str, go.Figure]) -> dict[str, Image.Image]:
    """One page with all figures one under the other, one picture of it, cut up."""
    parts, places, top = [], {}, 0
    for name, figure in figures.items():
        height = int(figure.layout.height)
        drawn = figure.to_html(
            full_html=False, include_plotlyjs=not parts, config={"displayModeBar": False}, default_width=WIDTH, default_height=height
        )
        parts.append(f'<div style="position:absolute;top:{top}px;left:0;width:{WIDTH}px">{drawn}</div>')
        places[name] = (top, height)
        top += height + GAP
    whole = screenshot(f'<body style="margin:0;background:{SURFACE["light"]}">{"".join(parts)}</body>', WIDTH, top)
    return {name: whole.crop((0, top, WIDTH, top + height)) for name, (top, height) in places.items()}


def screenshot(html: str, width: int, height: int) -> Image.Image:
    """A page as a browser of that size shows it."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("error: the pictures are taken with chromium, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "page.html", Path(folder) / "page.png"
        page.write_text(html, encoding="utf-8")
        quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking")
        command = [browser, *quiet, f"--user-data-dir={folder}/profile", f"--window-size={width},{height}", "--virtual-time-budget=30000"]
        subprocess.run([*command, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=300)
        return Image.open(BytesIO(picture.read_bytes())).convert("RGB")
