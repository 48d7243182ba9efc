import base64
import json
import re
from functools import partial

import numpy as np
import pytest

from attentif.errors import UsageError
from attentif.view import AttentionMaps, CodeBlock, FigureBlock, Paragraph, Score, Section, TableBlock, Text, TokensBlock
from attentif.view.blocks import Legend
from attentif.view.figures import confusion_matrix, loss_curves
from attentif.view.figures.scores import format_score
from attentif.view.render import block, body, differences, highlight_toml, json_script, quantize_map, section
from attentif.view.words import metric

EVIL = '</script><script>alert("1")</script><img src=x onerror=alert(2)> & \'"'


def spec_of(html):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)[1])


@pytest.mark.parametrize(
    "value",
    [
        Paragraph(EVIL),
        Paragraph(Text(EVIL, EVIL + "!")),
        TableBlock([EVIL], [[EVIL], [TokensBlock([EVIL], [1.0])]], caption=EVIL),
        CodeBlock(EVIL),
        CodeBlock(f"key = '{EVIL}' # {EVIL}\n[{EVIL}]\n{EVIL} = 1", "toml"),
        TokensBlock([EVIL], [0.5], caption=EVIL),
        AttentionMaps([EVIL], {EVIL: np.ones((1, 1, 1))}, title=EVIL),
        FigureBlock(EVIL, partial(confusion_matrix, [[1, 0], [0, 1]], [EVIL, "b"]), about=EVIL),
    ],
)
def test_text_from_outside_never_becomes_markup(value):
    html = block(value)
    assert "alert" in html
    assert "<script>" not in html
    assert "<img" not in html
    assert html.count("</script") == html.count("<script type=")
    assert not re.search(r'(?<![\w\\])on\w+="', html)


def test_a_text_is_there_in_both_languages_and_a_name_once():
    assert block(Paragraph(Text("oui", "yes"))) == (
        '<p class="plain"><span class="fr" lang="fr">oui</span><span class="en" lang="en">yes</span></p>'
    )
    assert block(Paragraph(Text("BLEU", "BLEU"))) == '<p class="plain">BLEU</p>'


def test_a_figure_travels_once_with_the_words_that_differ():
    draw = partial(loss_curves, [(step, 1 / step) for step in range(1, 400)])
    html = block(FigureBlock(Text("Perte", "Loss"), draw))
    spec = spec_of(html)
    assert "template" not in spec["layout"]
    assert spec["layout"]["xaxis"]["title"]["text"] == "step"
    assert [["layout", "xaxis", "title", "text"], "pas"] in spec["fr"]
    assert len(json.dumps(spec["fr"])) < 1000
    assert 'data-aria-fr="Perte' in html


def test_differences_are_found_by_place_and_unlike_shapes_replaced_whole():
    french, english = {"a": ["x", {"b": "oui"}], "c": [1]}, {"a": ["x", {"b": "yes"}], "c": [1, 2]}
    assert list(differences(french, english)) == [(["a", 1, "b"], "oui"), (["c"], [1])]
    assert list(differences(french, french)) == []


def test_json_for_a_script_holds_no_markup_and_reads_back():
    html = json_script({"text": EVIL})
    assert html.count("<") == 2
    assert spec_of(html) == {"text": EVIL}


def test_tables_align_numbers_stress_rows_and_say_what_is_missing():
    html = block(TableBlock(["name", "n"], [["a", 1234], ["b", None]], strong={1}))
    assert '<td class=num><span class="fr" lang="fr">1\u202f234</span><span class="en" lang="en">1,234</span></td>' in html
    assert '<tr class="strong"><td>b</td><td class=num>—</td></tr>' in html


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="row of 1 cells"):
        TableBlock(["a", "b"], [["alone"]])


def test_tokens_are_shaded_by_their_value_and_coloured_by_its_sign():
    html = block(TokensBlock(["a", "b"], [2.0, -1.0]))
    assert '<span class="tok" style="--shade:1.000" title="2">a</span>' in html
    assert '<span class="tok neg" style="--shade:0.500" title="-1">b</span>' in html
    assert "--shade:0.000" in block(TokensBlock(["a"], [0.0]))


def test_the_space_before_a_token_is_not_shaded():
    html = block(TokensBlock(["on", " rit", " "], [1.0, 1.0, 1.0]))
    assert re.sub(r'<span class="tok"[^>]*>', "[", html).replace("</span>", "]").count("<wbr>[on] [rit]<wbr>[ ]") == 1


def test_toml_is_highlighted_without_losing_a_character():
    text = '# run\n[model.encoder]  # part\nlr = 1e-3\nname = "a # b"  # why\npath = \'c:\\x\'\nmany = [\n  "x",\n]\n'
    html = highlight_toml(text)
    assert '<span class="k">lr</span> = 1e-3' in html
    assert '<span class="s">&quot;a # b&quot;</span>' in html
    assert '<span class="c"># why</span>' in html
    assert re.sub(r"<[^>]*>", "", html).replace("&quot;", '"').replace("&#x27;", "'") == text


def test_a_table_with_a_long_text_is_one_of_cards_on_a_phone():
    table = TableBlock([Text("classe", "class"), Text("texte", "text")], [["a", "un texte " * 9]])
    cells = re.findall(r"<td.*?</td>", block(table))
    assert "<table class=cards>" in block(table)
    assert all("<b class=name>" in cell for cell in cells)
    assert "cards" not in block(TableBlock(["a long name of a system, longer than a cell", "accuracy"], [["a" * 50, 1.0]]))


def test_a_legend_shows_both_colours_of_shaded_tokens():
    shown = block(Legend(Text("pour", "for"), Text("contre", "against")))
    positive, negative = re.findall(r'class="(tok.*?)".*?lang="en">(\w+)<', shown)
    assert (positive, negative) == (("tok", "for"), ("tok neg", "against"))


def test_maps_keep_every_weight_to_half_a_percent():
    weights = {"first": np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 5)), "last": np.ones((1, 5, 7)) / 7}
    spec = spec_of(block(AttentionMaps(list("abcde"), weights, list("tuvwxyz"))))
    bytes_ = np.frombuffer(base64.b64decode(spec["bytes"]), dtype=np.uint8)
    read = (bytes_ / 255.0) ** 2
    assert np.abs(read - np.concatenate([w.ravel() for w in weights.values()])).max() < 0.005
    assert spec["layers"] == [{"name": "first", "fr": "first", "heads": 3}, {"name": "last", "fr": "last", "heads": 1}]
    assert spec["columns"] == list("tuvwxyz")


def test_faint_weights_stay_apart_from_zero():
    assert quantize_map(np.array([0.0, 1e-4, 1.0, np.nan])).tolist() == [0, 3, 255, 0]


def test_maps_that_do_not_fit_their_tokens_are_refused():
    with pytest.raises(ValueError, match=r"not \(heads, 2, 2\)"):
        AttentionMaps(["a", "b"], {"0": np.ones((1, 2, 3))})


def test_maps_too_heavy_for_a_browser_are_refused_with_the_way_out():
    heavy = np.broadcast_to(np.float32(0), (100, 500, 500))
    with pytest.raises(UsageError, match=r"layers.*shorter"):
        block(AttentionMaps(["a"] * 500, {"0": heavy}))


def test_maps_of_nothing_say_so():
    assert "No attention map" in block(AttentionMaps([], {}))


def test_two_narrow_blocks_share_a_line_and_a_third_stands_alone():
    table = TableBlock(["a"], [["b"]])
    assert body([table, table, table]).count('<div class="pair">') == 1
    assert "pair" not in body([table, Paragraph("between"), table])


def test_a_table_whose_numbers_need_the_line_shares_it_with_none():
    figure = FigureBlock("figure", partial(confusion_matrix, [[1]], ["a"]))
    score = lambda value: format_score(Score(value, value - 0.01, value + 0.01), metric("perplexity"), "\n")
    fits, wide = (TableBlock(["system", *"abc"], [["this model", *[score(value)] * 3]]) for value in (3.5, 35555.5))
    assert '<div class="pair">' in body([figure, fits])
    assert "pair" not in body([figure, wide])


def test_a_folded_section_opens_by_a_click():
    assert "<details><summary><h2>" in section(Section("title", [Paragraph("body")], folded=True))


def test_what_is_no_block_is_refused():
    with pytest.raises(TypeError, match="int is no block"):
        block(3)
