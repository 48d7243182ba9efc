"""The page of a word's uses: what it says, and its figures in both languages."""

import numpy as np
import pytest

from attentif.view.figures.senses import cosine_matrix, map_of_uses
from attentif.view.senses import SensesView, labels, senses_page, senses_sections
from attentif.view.words import Text

SENTENCE = "Le roi dort."


def shown(uses: int, groups: list[int] | None = None, layers: int = 3) -> SensesView:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(layers, uses, 8))
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    tables = [np.ones((uses, uses)), *(table @ table.T for table in unit)]
    return SensesView("roi", [(SENTENCE, 3, 6)] * uses, tables, vectors[-1], groups or [0] * uses, 0.5 if groups else None)


@pytest.mark.parametrize("lang", ["fr", "en"])
def test_the_figures_are_drawn(lang):
    view = shown(4, [0, 1, 0, 1])
    matrix = cosine_matrix(view.by_layer[-1], labels(view), lang=lang)
    assert list(matrix.data[0].x) == ["1", "2", "3", "4"]
    assert matrix.layout.coloraxis.cmin == pytest.approx(view.by_layer[-1].min())
    drawn = map_of_uses(view.vectors, labels(view), [Text(f"sens {g}", f"sense {g}") for g in view.groups], lang=lang)
    assert len(drawn.data) == 2
    low, high = drawn.layout.xaxis.range
    assert all(low < x < high for trace in drawn.data for x in trace.x)


@pytest.mark.parametrize(("uses", "groups", "sections"), [(2, None, 3), (3, None, 4), (6, [0, 1, 0, 1, 2, 2], 4), (20, None, 4)])
def test_there_is_as_much_to_see_as_there_are_uses(uses, groups, sections, tmp_path):
    view = shown(uses, groups)
    assert len(senses_sections(view)) == sections
    senses_page(tmp_path / "roi.html", view)
    page = (tmp_path / "roi.html").read_text()
    assert "«\u00a0roi\u00a0» en contexte" in page
    assert "1.00 in the table of words" in page
    assert ("They fall into 3 senses (silhouette 0.50)" in page) == (groups is not None)


def test_uses_are_named_by_what_stands_around_them():
    view = shown(2)
    long = "Il était une fois, dans un pays lointain, un roi qui aimait beaucoup les chats."
    named = SensesView("roi", [(long, 45, 48), (SENTENCE, 3, 6)], view.by_layer, view.vectors, [0, 0], None)
    assert labels(named) == ["1. …lointain, un roi qui aimait be…", "2. Le roi dort."]
