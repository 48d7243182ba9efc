"""Figures that look inside: what they hold, in both languages, with numbers missing, and what they refuse."""

import json
import math

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from attentif.decode import BeamSearch, Node
from attentif.decode import Hypothesis as Found
from attentif.errors import UsageError
from attentif.view.blocks import Score
from attentif.view.figures import (
    BeamToken,
    Growth,
    Law,
    attention_map,
    beam_tree,
    bpe_merges,
    embedding_projection,
    error_accumulation,
    expert_shares,
    gates_over_time,
    gradient_by_distance,
    gradient_flow,
    heat_map,
    hypotheses_of,
    merge_steps,
    position_encodings,
    position_similarity,
    principal,
    scaling,
    token_routing,
)
from attentif.view.figures.axes import LENGTH, SECONDS
from attentif.view.words import LANGS, Text

NAN = math.nan
RNG = np.random.default_rng(0)
BEAM = [
    BeamToken("le", None, -0.5, chosen=True),
    BeamToken("un", None, -1.0),
    BeamToken("<b>", 0, -2.0, kept=False),
    BeamToken("chat", 0, -0.9, chosen=True),
]
GROWTH = Growth("a", [(1, Score(1.0, 0.9, 1.1)), (2, Score(NAN)), (4, Score(16.0))], Law(1.0, 2.0, 1, 4))
MERGES = [("l", "o"), ("lo", "w"), ("e", "r")]
VECTORS = RNG.normal(size=(5, 4))
VECTORS[2, 0] = NAN
FIGURES = {
    "scaling": lambda lang: scaling([GROWTH], LENGTH, SECONDS, lang=lang),
    "gradient flow": lambda lang: gradient_flow(["0.attn", "0.ffn"], {Text("avant", "before"): [1.0, NAN]}, lang=lang),
    "gradient by distance": lambda lang: gradient_by_distance({"lstm": [1.0, 0.5, 0.0, NAN]}, lang=lang),
    "positions": lambda lang: position_encodings(np.where(VECTORS > 2, NAN, VECTORS), lang=lang),
    "similar positions": lambda lang: position_similarity(VECTORS[:2], lang=lang),
    "shares": lambda lang: expert_shares({"layer 1": [0.5, 0.5], "layer 2": [1.0]}, lang=lang),
    "tokens' experts": lambda lang: token_routing(["a", "a"], [[0, 2], [1, 2]], [[0.7, 0.3], [NAN, 0.1]], 3, lang=lang),
    "projection": lambda lang: embedding_projection(VECTORS, list("abcde"), [Text("bon", "good"), "x", "x", "x", "x"], lang=lang),
    "merges": lambda lang: bpe_merges(merge_steps("lower", MERGES), lang=lang),
    "beam": lambda lang: beam_tree(BEAM, lang=lang),
    "accumulation": lambda lang: error_accumulation({Text("libre", "free"): [1.0, 0.9, NAN]}, error=0.05, lang=lang),
    "gates": lambda lang: gates_over_time(["le", "le"], {Text("oubli", "forget"): [[0.1, 0.9, NAN], [0.5, 0.5, 0.5]]}, lang=lang),
}
EMPTY = {
    "scaling": lambda: scaling([], LENGTH, SECONDS),
    "gradient flow": lambda: gradient_flow([], {}),
    "gradient by distance": lambda: gradient_by_distance({}),
    "positions": lambda: position_encodings([]),
    "similar positions": lambda: position_similarity([]),
    "shares": lambda: expert_shares({}),
    "tokens' experts": lambda: token_routing([], np.zeros((0, 1)), np.zeros((0, 1)), 2),
    "projection": lambda: embedding_projection([], []),
    "merges": lambda: bpe_merges([]),
    "beam": lambda: beam_tree([]),
    "accumulation": lambda: error_accumulation({}),
    "gates": lambda: gates_over_time([], {}),
    "attention": lambda: attention_map(np.zeros((0, 0)), []),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_speaks_both_languages_over_the_same_data_and_survives_nan(name):
    french, english = (json.loads(FIGURES[name](lang).to_json(), parse_constant=pytest.fail) for lang in LANGS)
    assert french != english
    for there, here in zip(french["data"], english["data"], strict=True):
        assert all(there.get(axis) == here.get(axis) for axis in "yz")


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_draw_is_said_in_one_line(name):
    with pytest.raises(UsageError, match=r"nothing"):
        EMPTY[name]()


def test_growth_shows_the_points_and_the_law_in_one_colour():
    measured, fitted = FIGURES["scaling"]("en").data
    assert list(measured.y) == [1.0, None, 16.0]
    assert list(fitted.x) == [1, 4]
    assert list(fitted.y) == [1.0, 16.0]
    assert measured.line.color == fitted.line.color
    assert measured.name == "a  n<sup>2.00</sup>"


def test_a_map_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match="2 rows and 1 columns"):
        heat_map(np.zeros((2, 3)), ["a", "b"], ["c"], ("", ""))


def test_signed_maps_are_symmetric_about_zero():
    fig = position_encodings([[0.5, -2.0]])
    assert (fig.layout.coloraxis2.cmin, fig.layout.coloraxis2.cmax) == (-2.0, 2.0)


def test_places_alike_have_a_cosine_of_one():
    (heat,) = position_similarity([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]).data
    assert np.allclose(heat.z, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_each_token_stands_at_the_experts_it_went_to():
    (heat,) = token_routing(["a", "b"], [[0, 2], [1, 2]], [[0.7, 0.3], [0.9, 0.1]], 3).data
    assert np.allclose(heat.z, [[0.7, 0, 0.3], [0, 0.9, 0.1]])


def test_principal_components_keep_distances_of_points_on_a_plane():
    plane = RNG.normal(size=(20, 2)) @ RNG.normal(size=(2, 7))
    points, shares = principal(plane)
    distance = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)
    assert np.allclose(distance(points), distance(plane))
    assert shares.sum() == pytest.approx(1)
    assert principal([[1.0, 2.0]])[0].shape == (1, 2)


def test_merges_are_those_of_the_library():
    vocab = {piece: place for place, piece in enumerate(["l", "o", "w", "e", "r", "lo", "low", "er"])}
    library = Tokenizer(models.BPE(vocab, MERGES))
    steps = merge_steps("lowerlow", MERGES)
    assert steps[0] == list("lowerlow")
    assert steps[-1] == library.encode("lowerlow").tokens
    assert steps[1] == ["lo", "w", "e", "r", "lo", "w"]
    assert merge_steps("aaa", [("a", "a")])[-1] == ["aa", "a"]


def test_what_a_merge_has_joined_is_outlined():
    shapes = bpe_merges([["a", "b", "c"], ["ab", "c"]]).layout.shapes
    assert len(shapes) == 5
    assert [shape.line.width > 1 for shape in shapes] == [False, False, False, True, False]


def test_a_beam_s_parent_stands_in_the_middle_of_its_children():
    fig = beam_tree(BEAM)
    dots = {text: (x, y) for trace in fig.data if trace.text for text, x, y in zip(trace.text, trace.x, trace.y, strict=True)}
    assert dots["le"] == (1, 0.5)
    assert dots["chat"][0] == 2
    assert dots["&lt;b&gt;"] == (2, 0)
    with pytest.raises(ValueError, match="before its parent"):
        beam_tree([BeamToken("a", 3, 0.0)])


def test_the_tree_of_a_search_marks_the_branch_of_its_best_text():
    nodes = [
        Node(-1, 1, 5, -0.5, "kept"),
        Node(-1, 1, 6, -0.9, "kept"),
        Node(0, 2, 7, -2.0, "complete"),
        Node(1, 2, 8, -1.0, "complete"),
        Node(1, 2, 9, -3.0, "dropped"),
    ]
    found = [Found([6, 8], -0.5, -1.0, "length"), Found([5, 7], -1.0, -2.0, "length")]
    tree = hypotheses_of(BeamSearch(2, "length", [], complete=found, tree=nodes), name=str)
    assert [one.token for one in tree if one.chosen] == ["6", "8"]
    assert [one.token for one in tree if not one.kept] == ["9"]
    assert [one.parent for one in tree] == [None, None, 0, 1, 1]
    with pytest.raises(UsageError, match="tree=True"):
        hypotheses_of(BeamSearch(2, "length", [], complete=found), name=str)


def test_independent_errors_follow_the_power_law():
    *_, law = error_accumulation({"free": [1.0, 0.8]}, error=0.1).data
    assert list(law.y) == pytest.approx([90, 81])


def test_gates_show_the_median_and_the_middle_half_of_the_units():
    band, line = gates_over_time(["a"], {"forget": [[0.0, 0.25, 0.5, 0.75, 1.0]]}).data
    assert list(line.y) == [0.5]
    assert list(band.y) == [0.75, 0.25]
