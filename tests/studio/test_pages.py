"""The pages as a user meets them, in a real browser.

Every test fails on a console error, a page error or a request that leaves the machine.
"""

import json
import math
import re
import urllib.parse
from pathlib import Path

import httpx
import pytest
import torch
from browsing import settled, state, until

import attentif
from attentif import inspect
from attentif.french import to_french
from attentif.serve.studio import library
from attentif.tasks.classification.classify import Classify

HOSTILE = "<img src=x onerror=window.hacked=1>"
POISON = "<svg/onload=window.hacked=1>"  # a token of the run HOSTILE
TEXT = "le film numéro 3 est superbe"
EVERY = ["classify", "lstm", "language", "mamba", "mamba2", "linear", "experts", "translate", "digits", "tones", "forecast", "folder"]


def test_the_token_leaves_the_address_and_the_runs_are_listed(visit):
    page = visit()
    assert "token" not in page.url
    assert page.locator("tr[data-run]").count() == 15
    row = page.locator('tr[data-run="classify"]')
    assert "classify" in row.inner_text()
    assert page.locator(f'tr[data-run="{HOSTILE}"]').count() == 1  # a name is a name
    assert page.locator("td img").count() == 0
    assert "damaged" in page.locator('tr[data-run="damaged"]').inner_text()


def test_language_and_colours_change_at_once_and_are_remembered(visit):
    page = visit()
    page.get_by_role("button", name="FR").click()
    page.get_by_role("heading", name="Modèles").wait_for()
    assert page.evaluate("document.documentElement.lang") == "fr"
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#scheme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    page.get_by_role("heading", name="Modèles").wait_for()
    assert page.evaluate("document.documentElement.dataset.scheme") == "dark"


def test_an_answer_follows_the_text_and_its_numbers_are_the_models(visit, studio):
    page = settled(visit(state("run", "classify", "try", text="le film est raté")))
    page.locator("#text").fill(TEXT)
    until(page, "document.querySelectorAll('.words .w').length === 6")
    settled(page)
    own = attentif.load(studio.runs / "classify").predict([TEXT])[0]
    shown = [float(value) for value in page.locator(".bars [data-value]").evaluate_all("all => all.map(one => one.dataset.value)")]
    assert shown == pytest.approx(list(own.scores.values()), abs=1e-6)
    assert page.locator("#answer").inner_text() == own.output
    assert urllib.parse.quote("numéro") in page.url  # the state has an address


def test_attention_in_the_page_is_that_of_the_model(visit, studio):
    page = settled(visit(state("run", "language", "inside", text="le film", path="decoder.blocks.1.attn", head=1, query=4)))
    run = attentif.load(studio.runs / "language")
    batch = inspect.make_batch([run.task.prompt(run.tokenizers, "le film")])
    steps = inspect.attention_steps(run.model, batch, "decoder.blocks.1.attn", head=1, query=4)
    weights = [float(one) for one in page.locator("[data-weight]").evaluate_all("all => all.map(one => one.dataset.weight)")]
    dots = [float(one) for one in page.locator("[data-dot]").evaluate_all("all => all.map(one => one.dataset.dot)")]
    assert weights == pytest.approx(steps.weights.tolist(), abs=1e-6)
    assert dots == pytest.approx(steps.dots.tolist(), abs=1e-4)
    page.get_by_role("button", name="Matrix").click()
    page.wait_for_selector("[data-row]")
    row = [float(one) for one in page.locator("[data-row]").get_attribute("data-row").split()]
    assert row == pytest.approx(steps.weights.tolist(), abs=1e-6)
    page.get_by_role("button", name="Lines").click()
    page.wait_for_selector("svg line", state="attached")
    page.get_by_role("button", name="All heads").click()
    page.wait_for_selector(".heads canvas")
    page.get_by_role("button", name="After each layer").click()
    page.wait_for_selector("table.lens")


@pytest.mark.parametrize("run", EVERY)
def test_every_part_of_every_architecture_opens(visit, run):
    page = settled(visit(state("run", run, "inside", text="un deux" if run == "translate" else "le film est superbe")))
    parts = page.locator("svg.architecture g[role=button]")
    assert parts.count() >= 3
    for number in range(parts.count()):
        parts.nth(number).focus()
        page.keyboard.press("Enter")
        settled(page)
        assert page.locator(".problem").count() == 0


def test_what_has_no_softmax_shows_its_own_numbers(visit):
    page = settled(visit(state("run", "lstm", "inside", text=TEXT)))
    assert page.locator("[data-gate]").count() == 5
    page = settled(visit(state("run", "ngram", "inside", text="le fil")))
    assert "i l" in page.locator("main").inner_text()


def test_a_head_switched_off_changes_the_answer_beside_the_original(visit, studio):
    page = settled(visit(state("run", "classify", "change", text=TEXT)))
    page.locator('[data-head="encoder.blocks.0.attn:0"]').click()
    until(page, "document.querySelector('[data-measure]').textContent.includes('→')")
    settled(page)
    run = attentif.load(studio.runs / "classify")
    with inspect.without_heads(run.model, {"encoder.blocks.0.attn": [0]}):
        own = run.predict([TEXT])[0]
    shown = page.locator('[data-side="after"] [data-value]').evaluate_all("all => all.map(one => Number(one.dataset.value))")
    assert shown == pytest.approx(list(own.scores.values()), abs=1e-6)
    assert json.loads(urllib.parse.parse_qs(page.url.split("?")[1])["changes"][0])[0]["heads"] == [0]
    page.locator("#rank").click()
    page.wait_for_selector("[data-effect]")
    effects = page.locator("[data-effect]").evaluate_all("all => all.map(one => Math.abs(Number(one.dataset.effect)))")
    assert effects == sorted(effects, reverse=True)


def test_sliders_redraw_the_distribution_and_a_click_goes_on(visit, studio):
    page = settled(visit(state("run", "language", "try", text="le film", temperature=1)))
    values = "[...document.querySelectorAll('.bars [data-value]')].map(one => Number(one.dataset.value))"
    warm = page.evaluate(values)
    page.locator("#temperature").evaluate("one => { one.value = 0.5; one.dispatchEvent(new Event('input')); }")
    cold = page.evaluate(values)
    assert cold[0] > warm[0]
    logs = [math.log(p) for p in warm[:4]]
    assert [math.log(p) - math.log(cold[0]) for p in cold[:4]] == pytest.approx([2 * (one - logs[0]) for one in logs], abs=1e-3)
    page.locator("#topk").evaluate("one => { one.value = 2; one.dispatchEvent(new Event('input')); }")
    assert sum(p > 0 for p in page.evaluate(values)) == 2
    page.locator(".bars button.name").nth(1).click()
    page.wait_for_selector("#written [role=button]")
    page.locator("#tokens").evaluate("one => { one.value = 5; one.dispatchEvent(new Event('input')); }")
    page.get_by_role("button", name="Write").click()
    until(page, "document.querySelectorAll('#written [role=button]').length === 6")
    whole = page.locator("#written").inner_text()
    page.locator("#written [role=button]").nth(2).click()
    settled(page)
    other = page.locator(".bars button.name:not(.off)").all_inner_texts()
    page.locator("#topk").evaluate("one => { one.value = 0; one.dispatchEvent(new Event('input')); }")
    page.locator(".bars button.name").nth(len(other) + 1).click()
    settled(page)
    assert page.locator("#written [role=button]").count() == 3
    assert page.locator("#tree ul ul li").count() == 2  # two branches where the texts part
    page.locator("#tree ul ul button").nth(0).click()
    settled(page)
    assert page.locator("#written").inner_text() == whole
    page.reload()
    until(page, "document.querySelectorAll('#written [role=button]').length === 6")  # the address holds the text


def test_a_slider_redraws_the_bars_that_are_there_without_a_shift(visit):
    page = settled(visit(state("run", "language", "try", text="le film")))
    page.locator("#distribution summary").click()
    page.evaluate("window.bar = document.querySelector('#distribution .fill'); bar.dataset.mine = 1")
    table = page.locator("#distribution td").nth(2).inner_text()
    shift = page.evaluate(
        """async () => {
            let shift = 0;
            const add = (list) => { for (const one of list.getEntries()) shift += one.value; };
            new PerformanceObserver(add).observe({ type: "layout-shift" });
            const slider = document.querySelector("#temperature");
            for (let i = 0; i < 40; i++) {
                slider.value = i / 20;
                slider.dispatchEvent(new Event("input"));
                await new Promise(requestAnimationFrame);
            }
            await new Promise((done) => setTimeout(done, 200));
            return shift;
        }"""
    )
    assert shift == 0
    assert page.evaluate("bar.isConnected && bar.dataset.mine === '1'")
    assert page.locator("#distribution td").nth(2).inner_text() != table  # an open table follows
    assert "temperature=1.95" in page.url


@pytest.mark.parametrize("path", ["app.js", "words.js", "style.css", "views/runs.js", "icon.svg"])
def test_a_browser_that_has_a_file_is_told_so(studio, path):
    headers = {"X-Attentif-Token": studio.token}
    first = httpx.get(f"{studio.url}/studio/static/{path}", headers=headers)
    assert first.status_code == 200
    again = httpx.get(f"{studio.url}/studio/static/{path}", headers=headers | {"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = httpx.get(f"{studio.url}/studio/static/{path}", headers=headers | {"if-none-match": '"another"'})
    assert other.content == first.content


def test_modules_of_the_first_view_are_asked_for_at_once(studio):
    static = Path(library.__file__).parent / "static"
    needed, waiting = set(), ["app.js", "views/runs.js"]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            found = re.findall(r'^import .* from "(\..*)";', (static / name).read_text(encoding="utf-8"), re.MULTILINE)
            waiting += [str((static / name).parent.joinpath(one).resolve().relative_to(static)) for one in found]
    page = httpx.get(f"{studio.url}/studio/", headers={"cookie": f"attentif_session={studio.token}"}).text
    assert set(re.findall(r'rel="modulepreload" href="/studio/static/([^"]+)"', page)) == needed


def test_a_digit_is_recognised_while_it_is_drawn(visit):
    page = visit(state("run", "digits", "try"))
    box = page.locator("canvas.draw").bounding_box()
    page.mouse.move(box["x"] + 140, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 140, box["y"] + 240, steps=6)
    page.mouse.up()
    page.wait_for_selector("#answer")
    assert re.fullmatch(r"\d", page.locator("#answer").inner_text())
    assert page.locator(".heads canvas").count() > 0


def test_a_translation_comes_with_its_alignment(visit):
    page = settled(visit(state("run", "translate", "try", text="un deux trois"), locale="fr-FR"))
    assert page.get_by_role("heading", name="Traduction").count() == 1
    assert page.locator("canvas.matrix").count() == 1


def test_two_models_answer_one_text(visit):
    page = settled(visit(state("compare", a="classify", b="lstm", text=TEXT)))
    assert page.locator("section[data-run]").count() == 2
    assert page.locator("section[data-run=lstm] .bars [data-value]").count() == 2


def test_a_training_is_started_watched_stopped_and_resumed(visit, studio):
    page = visit(state("training", recipe="copying", minutes=5))
    page.locator("#start").click()
    page.wait_for_selector("#progress svg.curve", timeout=60_000)
    assert page.locator("#state").inner_text() == "training"
    page.locator("#stop").click()
    until(page, "document.querySelector('#state').textContent === 'stopped'", seconds=90)
    page.locator("#resume").click()
    until(page, "document.querySelector('#state').textContent === 'training'", seconds=90)
    page.close()  # the training does not mind
    httpx.post(f"{studio.url}/studio/api/runs/copying-1/stop", headers={"X-Attentif-Token": studio.token}, json={}).raise_for_status()
    assert (studio.runs / "copying-1" / "metrics.jsonl").is_file()


def test_files_come_from_the_opened_folder_alone(visit, studio):
    page = visit(state("training"))
    names = page.locator("#file option").all_inner_texts()
    assert names[1:] == ["avis.csv", "texte.txt"]
    page.locator("#file").select_option("0")
    page.wait_for_selector("th:has-text('polarity')")
    page.wait_for_selector("#detected", timeout=60_000)
    assert "label from column 'polarity'" in page.locator("#detected").inner_text()


def test_the_three_vectors_are_worked_out_again_when_a_number_changes(visit):
    page = visit(state("course", "5"), locale="fr-FR")
    weights = "[...document.querySelectorAll('#by-hand [data-weight]')].map(one => Number(one.dataset.weight))"
    page.get_by_label("chat 2").fill("0")
    x = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1]])
    expected = torch.softmax(x @ x.T / 3**0.5, -1).flatten().tolist()
    assert page.evaluate(weights) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("locale", ["fr-FR", "en-GB"])
def test_every_chapter_opens_with_a_figure_and_checks_its_questions(visit, locale):
    page = visit(state("course"), locale=locale)
    assert page.locator(".chapters li").count() == 12
    for chapter in range(1, 13) if locale == "fr-FR" else (1, 5, 7):
        page.goto(page.url.split("#")[0] + state("course", str(chapter)))
        until(page, f"document.querySelector('main').dataset.state === 'course/{chapter}'")
        assert page.locator(".problem").count() == 0
        assert page.locator(".widget > *").count() > 0
        for answer in page.locator(".question input").all():
            answer.check()
            if page.locator(".question .right").count():
                break
        assert page.locator(".question .right").count() == 1


def test_markup_in_names_labels_and_texts_is_only_text(visit):
    page = settled(visit(state("run", HOSTILE, "try", text=f"{HOSTILE} <script>window.hacked=1</script> film")))
    assert page.locator("main img").count() == 0
    assert HOSTILE in page.locator(".bars").first.inner_text()
    assert page.locator("h1").inner_text() == HOSTILE


@pytest.mark.parametrize("view", ["matrix", "lines", "steps"])
def test_markup_in_a_vocabulary_is_only_text(visit, view):
    page = settled(visit(state("run", HOSTILE, "inside", text=f"le film {POISON} est", view=view)))
    tokens = page.locator(".tokens button").all_inner_texts()
    assert POISON in tokens
    assert page.locator("[onload]").count() == 0
    page.goto(page.url.split("#")[0] + state("run", HOSTILE, "change", text=f"le film {POISON}"))
    until(page, f"document.querySelector('main').dataset.state === {json.dumps(f'run/{HOSTILE}/change')}")
    assert POISON in settled(page).locator(".tokens button").all_text_contents()  # in a closed panel
    assert page.locator("[onload]").count() == 0


def test_an_error_is_a_sentence_in_the_page(visit):
    page = visit(state("run", "classify", "try", text=TEXT))
    page.__dict__["quiet"] = True  # browsers report a failed request themselves
    page.goto(page.url.split("#")[0] + state("run", "nobody"))
    page.get_by_role("alert").wait_for()
    assert "nobody" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(("width", "dark", "locale"), [(1280, False, "en-GB"), (390, True, "fr-FR")])
@pytest.mark.parametrize(
    "view",
    [
        (),
        ("run", "classify", "try"),
        ("run", "language", "try"),
        ("run", "digits", "try"),
        ("run", "language", "inside"),
        ("run", "mamba", "inside"),
        ("run", "classify", "change"),
        ("training",),
        ("compare",),
        ("course",),
        ("course", "5"),
    ],
)
def test_pages_are_accessible_and_fit_the_screen(visit, view, width, dark, locale):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = settled(visit(state(*view, text=TEXT) if view[:1] == ("run",) else state(*view), width=width, dark=dark, locale=locale))
    found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found if one["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


ENGLISH = r"\b(the|and|of|is|are|was|were|with|this|that|from|which|not|its|what|there|has|have|by|for|to)\b"
SHOWN = """() => {
    const whole = document.body.cloneNode(true);
    for (const one of whole.querySelectorAll("pre, code, .mono, .written, .tokens, .bars .name, svg text, [lang=en]")) one.remove();
    const said = [...whole.querySelectorAll("[aria-label], [title], [placeholder]")]
        .flatMap((one) => ["aria-label", "title", "placeholder"].map((name) => one.getAttribute(name) || ""));
    const texts = (one) => [...one.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.data);
    return [...said, ...[...whole.querySelectorAll("*")].flatMap(texts)];
}"""


@pytest.mark.parametrize("run", [*EVERY, "ngram"])
def test_everything_on_a_french_page_is_french(visit, run):
    page = visit(state("run", run), locale="fr-FR")
    for tab in [one.get_attribute("href") for one in page.locator("nav.tabs a").all()]:
        page.goto(page.url.split("#")[0] + tab)
        wanted = urllib.parse.unquote(tab.removeprefix("#/").partition("?")[0])
        until(page, f"document.querySelector('main').dataset.state === {json.dumps(wanted)}")
        said = settled(page).evaluate(SHOWN)
        assert [one for one in said if re.search(ENGLISH, one)] == []


def test_the_caveat_of_a_run_is_french_on_a_french_page(visit, monkeypatch):
    said = "answers are averages: 0.60 × the network + 0.40 × a linear model of words; probabilities are calibrated (temperature 1.15)"
    monkeypatch.setattr(Classify, "caveat", lambda *_: said)
    for locale, expected in (("fr-FR", to_french(said)), ("en-GB", said)):
        page = settled(visit(state("run", "classify", "try", text=TEXT), locale=locale))
        assert page.locator(".note").inner_text() == f"{expected[0].upper()}{expected[1:]}."
    assert to_french(said).endswith("les probabilités sont calibrées (température 1,15)")
    assert not re.search(ENGLISH, to_french(said))


def test_an_error_on_a_french_page_is_french(visit):
    page = visit(locale="fr-FR")
    page.__dict__["quiet"] = True
    page.goto(page.url.split("#")[0] + state("run", "nobody"))
    page.get_by_role("alert").wait_for()
    assert "il n’y a pas de modèle" in page.get_by_role("alert").inner_text()
    assert not re.search(ENGLISH, page.get_by_role("alert").inner_text())
