"""Diagrams: every preset is drawn as valid SVG, with the sublayers, residuals and norms that its configuration has."""

from typing import Any
from xml.etree import ElementTree

import pytest

from attentif.models import preset_names, resolve
from attentif.nn.mixer import MIXERS as REGISTERED
from attentif.view.diagram import draw_model, fold
from attentif.view.diagram_words import INPUTS, MIXERS, OUTPUTS, POSITIONS

SVG = "{http://www.w3.org/2000/svg}"
FFN = {"mixer": {"kind": "feed-forward"}}


def drawn(values: dict[str, Any], lang: Any = "en") -> ElementTree.Element:
    return ElementTree.fromstring(draw_model(resolve(values), lang=lang))


def words(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.iter(f"{SVG}text")]


def boxes(svg: ElementTree.Element, family: str) -> int:
    return sum(group.get("class") == family for group in svg.iter(f"{SVG}g"))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_drawn(name: str) -> None:
    svg = drawn({"base": name})
    left, top, width, height = map(float, (svg.get("viewBox") or "").split())
    for rect in svg.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(key) or 0) for key in ("x", "y", "width", "height"))
        assert left <= x <= x + w <= left + width
        assert top <= y <= y + h <= top + height
    stacks = [stack for stack in (resolve({"base": name}).encoder, resolve({"base": name}).decoder) if stack and stack.layers != 0]
    assert any(word.startswith("× ") for word in words(svg)) == bool(stacks)


def test_every_kind_has_a_name_in_both_languages() -> None:
    from attentif.models.frontends.base import FRONTENDS
    from attentif.models.heads.base import HEADS
    from attentif.nn.position import POSITIONS as PLACES

    own = {kind for kind, config in REGISTERED.classes.items() if config.__module__.startswith("attentif.")}  # none of a plug-in
    assert own <= {*MIXERS, "parallel", "bidirectional"}
    assert set(FRONTENDS.classes) <= set(INPUTS)
    assert set(HEADS.classes) <= set(OUTPUTS)
    assert set(PLACES.classes) <= set(POSITIONS)


@pytest.mark.parametrize(("placement", "norms"), [("pre", 3), ("post", 2), ("sandwich", 5), ("both", 4), ("none", 0)])
def test_norms_stand_where_the_placement_puts_them(placement: str, norms: int) -> None:
    svg = drawn({"base": "decoder-tiny", "decoder": {"placement": placement}})
    assert boxes(svg, "norm") == norms
    assert len(list(svg.iter(f"{SVG}circle"))) == 2


def test_a_sublayer_without_a_residual_has_no_sum() -> None:
    svg = drawn({"base": "decoder-tiny", "decoder": {"block": {"ffn": {"residual": False}}}})
    assert len(list(svg.iter(f"{SVG}circle"))) == 1


def test_kinds_of_block_that_take_turns_are_drawn_once_each() -> None:
    kinds = [{"repeat": 2, "sublayers": {"ffn": FFN}}, {"sublayers": {"ssm": {"mixer": {"kind": "mamba"}}}}]
    plain = {"width": 8, "layers": 9, "frontend": {"kind": "tokens"}, "head": {"kind": "language"}}
    svg = drawn({**plain, "decoder": {"blocks": kinds}})
    assert (boxes(svg, "feed-forward"), boxes(svg, "recurrence")) == (1, 1)
    assert {"× 2", "× 1", "9 blocks, taking turns"} <= set(words(svg))


def test_it_speaks_french() -> None:
    said = words(drawn({"base": "transformer-tiny"}, "fr"))
    assert {"Attention croisée", "Auto-attention", "Plongement"} <= set(said)


def test_names_from_a_file_are_escaped() -> None:
    svg = draw_model(resolve({"base": "gpt2"}), title="<script>alert(1)</script>")
    assert "<script" not in svg


def test_details_are_folded_without_losing_any() -> None:
    lines = fold(["8 heads", "masked", "rotary", "window of 256"], "en", 18)
    assert len(lines) > 1
    assert " · ".join(lines) == "8 heads · masked · rotary · window of 256"
