"""The gallery shows every figure that is there to be used, and all of its pictures are there."""

import re
from pathlib import Path

from attentif.view import figures

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "gallery.md").read_text(encoding="utf-8")
ELSEWHERE = {  # shown by the pages of the tasks, or no figures
    "by_length", "contenders", "cost_bars", "front", "heat_map", "hypotheses_of", "learning_rate", "loss_curves",
    "merge_steps", "metric_curves", "principal", "reliability", "smooth",
}  # fmt: skip


def test_every_figure_has_its_place() -> None:
    shown = set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE))
    functions = {name for name in figures.__all__ if not name[0].isupper()}
    assert shown == functions - ELSEWHERE


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"\]\((images/gallery/\w+\.png)\)", PAGE)
    assert len(pictures) >= 20
    assert all((DOCS / picture).stat().st_size > 1000 for picture in pictures)
