"""What a user does in the pages beyond opening them: sorting, taking changes back, drawing without a mouse, tables of pictures."""

import json
import math
import re

import httpx
import pytest
from browsing import settled, state, until

from attentif.french import to_french
from attentif.recipes import recipe_description, recipe_names

TEXT = "le film numéro 3 est superbe"


def column(page, number: int) -> list[str]:
    return page.locator(f"table.runs tbody td:nth-child({number})").all_inner_texts()


def test_runs_are_sorted_by_a_column_and_the_address_keeps_it(visit):
    page = visit()
    page.get_by_role("button", name="Parameters").click()
    until(page, "location.hash.includes('sort=-parameters')")
    sizes = page.evaluate("fetch('/studio/api/runs').then((answer) => answer.json()).then((all) => all.runs.map((run) => run.parameters))")
    known = sorted((size for size in sizes if size), reverse=True)
    shown = [text for text in column(page, 8) if text]
    assert len(shown) == len(known)
    assert not column(page, 8)[-1]  # what is not known comes last
    page.get_by_role("button", name="Run", exact=True).click()
    first = column(page, 2)
    page.reload()
    page.wait_for_selector("table.runs tbody tr")
    assert column(page, 2) == first
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"


def test_a_change_is_a_chip_that_takes_it_back(visit):
    changes = [{"kind": "positions"}, {"kind": "heads", "path": "encoder.blocks.0.attn", "heads": [0, 1]}]
    page = settled(visit(state("run", "classify", "change", text=TEXT, changes=json.dumps(changes))))
    assert page.locator(".chips li").count() == 2
    assert page.locator("[data-head='encoder.blocks.0.attn:1']").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name=re.compile("^Take back: encoder 1")).click()
    until(page, "!location.hash.includes('heads')")
    settled(page)
    assert page.locator(".chips li").count() == 1
    assert page.locator("[data-head='encoder.blocks.0.attn:1']").get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name=re.compile("^Take back: No positions")).click()
    until(page, "!location.hash.includes('changes')")
    settled(page)
    before, after = (float(one) for one in page.locator("[data-measure]").get_attribute("data-measure").split())
    assert before == after


def test_a_vector_is_patched_from_tokens_that_are_chosen_by_name(visit):
    page = settled(visit(state("run", "classify", "change", text=TEXT)))
    page.locator("summary", has_text="Patch from another text").click()
    page.locator("#patch-text").fill("ce roman est raté")
    page.get_by_role("group", name="Take the vector of").get_by_role("button", name="raté").click()
    page.get_by_role("group", name="Put it in place of").get_by_role("button", name="superbe").click()
    page.locator("#patch").click()
    until(page, "location.hash.includes('patch')")
    settled(page)
    (change,) = page.evaluate("JSON.parse(new URLSearchParams(location.hash.split('?')[1]).get('changes'))")
    assert change["kind"] == "patch"
    tokens = page.get_by_role("group", name="Put it in place of").get_by_role("button").all_inner_texts()
    assert tokens[change["place"]] == "superbe"
    before, after = (float(one) for one in page.locator("[data-measure]").get_attribute("data-measure").split())
    assert before != after


def test_a_digit_is_drawn_with_the_arrow_keys(visit):
    page = visit(state("run", "digits", "try"))
    page.locator("canvas.draw").focus()
    for key in ["ArrowDown"] * 8 + ["Shift+ArrowLeft"] * 2:
        page.keyboard.press(key)
    page.wait_for_selector("#answer")
    ink = "document.querySelector('canvas.draw').getContext('2d').getImageData(140, 120, 1, 1).data[0]"
    assert page.evaluate(ink) == 255
    assert page.evaluate("getComputedStyle(document.querySelector('.tip')).display") == "block"


def test_a_picture_of_the_test_split_is_answered_and_has_an_address(visit, studio):
    page = visit(state("run", "digits", "try"))
    page.locator("#another").click()
    until(page, "location.hash.includes('example=0')")
    settled(page)
    bars = (
        "[...document.querySelectorAll('.bars [role=listitem]')].map((one) => [one.children[0].textContent, one.children[2].dataset.value])"
    )
    shown = {name: float(value) for name, value in page.evaluate(bars)}
    headers = {"X-Attentif-Token": studio.token}
    answer = httpx.post(f"{studio.url}/studio/api/runs/digits/answer", headers=headers, json={"example": 0}, timeout=60).json()["outcome"]
    assert shown == pytest.approx(dict(zip(answer["names"], answer["probabilities"], strict=True)))
    again = settled(visit(state("run", "digits", "try", example=0)))
    assert again.locator("#answer").inner_text() == page.locator("#answer").inner_text()


def test_a_sound_of_the_test_split_has_an_address(visit):
    page = settled(visit(state("run", "tones", "try", example=1)))
    assert page.locator("canvas.matrix").count() == 1


@pytest.mark.parametrize("view", ["lines", "headsView", "matrix"])
def test_every_picture_of_attention_has_its_table(visit, view):
    page = settled(visit(state("run", "language", "inside", text="le film", path="decoder.blocks.1.attn", head=1, view=view)))
    figure = page.locator(".figure").first
    figure.locator("summary").click()
    figure.locator("tbody tr").nth(3).wait_for()
    rows = figure.locator("tbody tr").all()
    for row in rows:  # the weights of a query sum to 1
        weights = [float(one.replace("−", "-")) for one in row.locator("td.num").all_inner_texts()]
        assert math.isclose(sum(weights), 1, abs_tol=2e-3)


def test_the_overview_of_a_long_text_moves_with_the_arrow_keys(visit):
    text = "le film numéro 3 est superbe. ce roman est raté. " * 8
    page = settled(visit(state("run", "language", "inside", text=text, view="matrix", path="decoder.blocks.1.attn")))
    said = "document.querySelector('.overview').closest('.card').innerText.match(/Rows (\\d+)/)[1]"
    before = page.evaluate(said)
    page.locator("canvas.overview").focus()
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    until(page, f"!document.querySelector('[aria-busy]') && {said} !== '{before}'")
    assert int(page.evaluate(said)) < int(before)


def test_formulas_have_subscripts_and_no_underscores(visit):
    page = settled(visit(state("run", "language", "inside", text="le film", path="decoder.blocks.1.attn")))
    assert page.locator(".formula sub").count() > 3
    assert "_" not in "".join(page.locator(".formula").all_inner_texts())
    page = visit(state("course", "6"), locale="fr-FR")
    assert "_" not in "".join(page.locator(".lesson > p, .lesson > h2, legend").all_inner_texts())
    assert page.locator(".question sub").count() >= 2


def test_the_second_figure_of_a_chapter_opens_in_its_place_and_has_an_address(visit):
    page = settled(visit(state("course", "6")))
    page.wait_for_selector(".heads")
    page.locator(".open-here").click()
    page.wait_for_selector("#rank")
    until(page, "location.hash.includes('figure=2')")
    assert page.locator(".heads").count() == 0  # one view at a time holds the address
    assert "view=" not in page.url
    again = settled(visit(page.url[page.url.index("#") :]))
    assert again.locator("#rank").count() == 1


def test_figures_about_attention_never_open_on_a_model_without_it(visit):
    for chapter in ("5", "6", "7", "8"):
        page = settled(visit(state("course", chapter)))
        link = page.locator(".widget > p.muted > a")
        assert link.count() == 0 or link.inner_text() not in {"lstm", "mamba", "mamba2", "linear", "ngram"}


def test_every_recipe_says_what_it_trains_in_the_language_of_the_page(visit):
    assert [name for name in recipe_names() if to_french(recipe_description(name)) == recipe_description(name)] == []
    page = visit(state("training", recipe="digits"), locale="fr-FR")
    assert "manuscrits" in page.locator("#about").inner_text()
    page.locator("#recipe").select_option("ngram")
    assert page.locator("#minutes").is_disabled()
    page.locator("details.same > summary").click()
    assert page.locator("[data-code=command]").inner_text() == "attentif train ngram"
    page.locator("#recipe").select_option("reviews")
    page.locator("#file").select_option("0")
    page.locator("[data-code=command]", has_text="--data avis.csv").wait_for()


def test_nothing_in_the_header_moves_when_another_page_is_opened(visit):
    places = "[...document.querySelectorAll('header nav a')].map((one) => Math.round(one.getBoundingClientRect().x))"
    page = visit()
    before = page.evaluate(places)
    page.get_by_role("link", name="Course").click()
    until(page, "document.querySelector('main').dataset.state === 'course'")
    assert page.evaluate(places) == before
