import base64
import hashlib
import os
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from attentif.errors import RunError
from attentif.view import AttentionMaps, FigureBlock, Paragraph, Section, TableBlock, Text
from attentif.view.figures import loss_curves
from attentif.view.maps import maps_page
from attentif.view.page import Fragment, Page, render, write

FIGURE = FigureBlock("Loss", partial(loss_curves, [(1, 2.0)]))
MAPS = AttentionMaps(["a", "b"], {"0": np.eye(2)[None]})
PAGE = Page(Text("Titre <1>", "Title <1>"), [Section("One", [FIGURE, FIGURE]), Section("Two", [MAPS])], [Paragraph("first")])


def scripts(html):
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def own_text(html):
    """The page without the scripts it inlines: plotly's source quotes addresses that it never fetches here."""
    return re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


def test_the_page_refers_to_nothing_outside_itself():
    html = own_text(render(PAGE))
    assert not re.search(r"https?://|\bsrc=|<link|url\(|@import", html)


def test_only_the_scripts_of_the_page_itself_may_run():
    html = render(PAGE)
    allowed = set(re.findall(r"'sha256-([^']+)'", html))
    assert allowed == {base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in scripts(html)}
    assert "default-src 'none'" in html
    assert "\r" not in html  # a browser would turn it into a line feed, and the hashes would no longer fit


def test_plotly_is_inlined_once_and_only_where_a_figure_needs_it():
    assert render(PAGE).count("* plotly.js v") == 1
    plain = render(Page("t", [Section("s", [TableBlock(["a"], [["b"]])])]))
    assert "plotly.js v" not in plain
    assert len(plain) < 40_000


def test_titles_are_escaped_in_both_languages():
    html = own_text(render(PAGE))
    assert '<title data-fr="Titre &lt;1&gt;" data-en="Title &lt;1&gt;">Title &lt;1&gt;</title>' in html
    assert "<1>" not in html


def test_every_link_of_the_contents_leads_to_a_heading():
    html = own_text(render(PAGE))
    targets = re.findall(r'href="#([^"]+)"', html)
    assert len(targets) == 3
    assert all(re.search(f'id="?{target}[" >]', html) for target in targets)


def test_writing_replaces_the_page_whole(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write(path, PAGE)
    assert path.read_text(encoding="utf-8") == render(PAGE)
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_failed_write_leaves_the_old_page_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"report\.html: no space left"):
        write(path, PAGE)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_missing_folder_is_said_in_one_line(tmp_path):
    with pytest.raises(RunError, match=r"file.*directory"):
        write(tmp_path / "nowhere" / "report.html", PAGE)


def test_maps_of_a_large_model_stay_light(tmp_path):
    weights = {f"encoder.{layer}": np.full((12, 64, 64), 1 / 64) for layer in range(12)}
    path = tmp_path / "maps.html"
    maps_page(path, [AttentionMaps(["mot"] * 64, weights)], title=Text("Cartes", "Maps"))
    assert path.stat().st_size < 1_000_000
    assert "plotly.js v" not in path.read_text(encoding="utf-8")


def test_a_notebook_shows_the_blocks_without_the_page():
    html = Fragment([Section("One", [TableBlock(["a"], [["<b>"]])])])._repr_html_()
    assert html.startswith('<div class="attentif"')
    assert "&lt;b&gt;" in html
    assert "<html" not in html
    assert "<nav" not in html


def test_describing_a_page_does_not_load_plotly():
    probe = "import sys, attentif.view; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
