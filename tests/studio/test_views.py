"""What the views show is what the model computes, and what they say to type gives the same."""

import ast
import base64
import json
import re
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from browsing import settled, state, until

import attentif
from attentif import inspect
from attentif.inspect.counts import ngram_steps

HOSTILE = "<img src=x onerror=window.hacked=1>"
TEXT = "le film numéro 3 est superbe"


def numbers(page: Any, selector: str, name: str = "value") -> list[float]:
    return page.locator(selector).evaluate_all(f"all => all.map(one => Number(one.dataset.{name}))")


def run_python(code: str) -> Any:
    """The value of the last line, or what it prints."""
    printed: list[Any] = []
    *lines, last = ast.parse(code).body
    scope: dict[str, Any] = {"print": printed.append}
    exec(compile(ast.Module(lines, []), "shown", "exec"), scope)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "shown", "eval"), scope)
    exec(compile(ast.Module([last], []), "shown", "exec"), scope)
    return printed[0]


def shown_python(page: Any) -> str:
    if page.locator("details.same[open]").count() == 0:
        page.locator("details.same > summary").click()
    page.wait_for_selector("[data-code=python]")
    return page.locator("[data-code=python]").inner_text()


# ------------------------------------------------------------------------------------------------------- the same elsewhere


@pytest.mark.parametrize("step", [None, 3])
def test_the_python_lines_of_a_view_give_its_answer(visit, step):
    page = settled(visit(state("run", "classify", "try", text=f"{TEXT} 'et' \"drôle\"", **({"step": step} if step else {}))))
    (own,) = run_python(shown_python(page))
    assert numbers(page, ".bars [data-value]") == pytest.approx(list(own.scores.values()), abs=1e-6)


def test_the_python_lines_of_a_head_give_its_weights(visit):
    page = settled(visit(state("run", "language", "inside", text="le film", path="decoder.blocks.1.attn", head=1, query=4)))
    weights = run_python(shown_python(page))
    assert numbers(page, "[data-weight]", "weight") == pytest.approx(weights.tolist(), abs=1e-6)


CHANGES = [
    {"kind": "heads", "path": "encoder.blocks.0.attn", "heads": [0, 1]},
    {"kind": "part", "path": "encoder.blocks.1.ffn"},
    {"kind": "sharpen", "factor": 4},
    {"kind": "vector", "place": 2, "word": "roman"},
    {"kind": "patch", "path": "encoder.blocks.0.ffn", "place": 1, "text": "ce roman", "place_there": 1},
    {"kind": "positions"},
    {"kind": "unscaled"},
    {"kind": "residual", "path": ""},
]


def test_the_python_lines_of_changes_give_the_changed_answer(visit):
    page = settled(visit(state("run", "classify", "change", text=TEXT, changes=json.dumps(CHANGES))))
    (own,) = run_python(shown_python(page))
    assert numbers(page, "[data-side=after] [data-value]") == pytest.approx(list(own.scores.values()), abs=1e-5)
    assert page.locator("[data-side=after] .answer").inner_text() == own.output


def test_a_view_saves_itself_as_one_html_file_and_as_a_picture(visit):
    from PIL import Image

    page = settled(visit(state("run", "language", "inside", text="le film", view="matrix")))
    with page.expect_download() as saved:
        page.locator("[data-save=saveHtml]").click()
    html = saved.value.path().read_text(encoding="utf-8")
    assert "data:image/png;base64," in html
    assert "default-src 'none'" in html
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", html)
    with page.expect_download() as saved:
        page.locator("[data-save=savePng]").click()
    with Image.open(saved.value.path()) as picture:
        assert picture.width > 800
        assert len(picture.convert("RGB").resize((60, 60)).getcolors(3600) or []) > 10  # something is drawn


# ------------------------------------------------------------------------------------------- what has no softmax, by hand


def vector(page: Any, name: str) -> list[float]:
    return [float(value) for value in page.locator(f"[data-vector={name}]").get_attribute("data-values").split()]


def prompt_of(run: Any, text: str) -> Any:
    return inspect.make_batch([run.task.prompt(run.tokenizers, text)])


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_a_channel_of_a_state_space_is_worked_out_in_the_page(visit, studio, name, locale):
    path = "decoder.blocks.1.ssm"
    page = settled(visit(state("run", name, "inside", text="le film", path=path, channel=3, query=4), locale=locale))
    run = attentif.load(studio.runs / name)
    steps = inspect.state_space_steps(run.model, prompt_of(run, "le film"), path, channel=3, query=4)
    for key in ("delta", "u", "y", "gated"):
        assert numbers(page, f"td[data-{key}]", key) == pytest.approx(getattr(steps, key).tolist(), abs=1e-6)
    expected = {"A": steps.A, "decay": steps.decay[4], "B": steps.B[4], "C": steps.C[4], "state": steps.state[4]}
    for key, value in expected.items():
        assert vector(page, key) == pytest.approx(value.tolist(), abs=1e-6)
    kept, written = vector(page, "kept"), vector(page, "written")
    assert [a + b for a, b in zip(kept, written, strict=True)] == pytest.approx(steps.state[4].tolist(), abs=1e-6)
    torch.testing.assert_close(run_python(shown_python(page)), steps.state)
    page.locator("#channel").fill("7")
    page.locator("#channel").blur()
    until(page, "location.hash.includes('channel=7')")
    settled(page)
    other = inspect.state_space_steps(run.model, prompt_of(run, "le film"), path, channel=7, query=4)
    assert vector(page, "state") == pytest.approx(other.state[4].tolist(), abs=1e-6)


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_a_head_of_linear_attention_is_worked_out_in_the_page(visit, studio, locale):
    path = "decoder.blocks.1.attn"
    page = settled(visit(state("run", "linear", "inside", text="le film", path=path, head=2, query=4), locale=locale))
    run = attentif.load(studio.runs / "linear")
    steps = inspect.linear_attention_steps(run.model, prompt_of(run, "le film"), path, head=2, query=4)
    assert numbers(page, "[data-weight]", "weight") == pytest.approx(steps.weights.tolist(), abs=1e-6)
    assert numbers(page, "[data-denominator]", "denominator") == pytest.approx([float(steps.denominator)], rel=1e-5)
    for key in ("q_features", "total", "mixed"):
        assert vector(page, key) == pytest.approx(getattr(steps, key).tolist(), abs=1e-5)
    torch.testing.assert_close(run_python(shown_python(page)), steps.weights)
    page.locator(".segmented button").nth(-4).click()  # the matrix
    page.wait_for_selector("[data-row]")
    row = [float(one) for one in page.locator("[data-row]").get_attribute("data-row").split()]
    assert row == pytest.approx(steps.weights.tolist(), abs=1e-6)
    shown = run_python(shown_python(page))
    torch.testing.assert_close(shown[0, 0, 4], steps.weights)


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_a_probability_of_an_ngram_model_is_worked_out_in_the_page(visit, studio, locale):
    page = settled(visit(state("run", "ngram", "inside", text="le fil"), locale=locale))
    run = attentif.load(studio.runs / "ngram")
    before = run.task.prompt(run.tokenizers, "le fil")
    p = run.model.next(before)
    assert numbers(page, ".bars button.name ~ [data-value]")[0] == pytest.approx(p.max(), abs=1e-9)
    page.locator(".bars button.name").nth(1).click()
    until(page, "location.hash.includes('token=')")
    settled(page)
    token = int(re.search(r"token=(\d+)", page.url)[1])
    steps = ngram_steps(run.model, before, token)
    assert len(steps) == 3
    for key, own in {
        "count": "count",
        "total": "total",
        "discount": "discount",
        "gamma": "gamma",
        "lower": "lower",
        "share": "probability",
    }.items():
        assert numbers(page, f"#kneser-ney td[data-{key}]", key) == pytest.approx([getattr(one, own) for one in steps], abs=1e-9)
    assert numbers(page, "#kneser-ney td[data-share]", "share")[-1] == pytest.approx(p[token], rel=1e-9)
    assert run_python(shown_python(page)) == steps


# ---------------------------------------------------------------------------------------------------------- kinds of input


def test_a_forecast_stands_after_what_was_read_with_its_interval(visit, studio):
    page = settled(visit(state("run", "forecast", "try"), locale="fr-FR"))
    page.wait_for_selector("[data-band]", state="attached")
    headers = {"X-Attentif-Token": studio.token}
    answer = httpx.post(f"{studio.url}/studio/api/runs/forecast/answer", headers=headers, json={"example": 0}, timeout=60).json()
    table = answer["outcome"]["details"]["table"]
    name = next(key for key in table[0] if key not in ("date", "series"))
    drawn = [float(value) for value in page.locator("path[data-values]").nth(1).get_attribute("data-values").split()]
    assert drawn == pytest.approx([row[name] for row in table])
    band = [[float(one) for one in row.split()[1:]] for row in page.locator("[data-band]").first.get_attribute("data-band").split(";")]
    assert band == [[pytest.approx(row[f"{name} q0.1"]), pytest.approx(row[f"{name} q0.9"])] for row in table]
    columns = [key for key in table[0] if key not in ("date", "series") and not re.search(r" q0?\.\d+$", key)]
    values = ",".join(["{0}"] * len(columns))
    rows = "".join(f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,{values.format(hour % 24)}\n" for hour in range(96))
    file = f"date,{','.join(columns)}\n{rows}"
    page.locator("#file").set_input_files({"name": "own.csv", "mimeType": "text/csv", "buffer": file.encode()})
    until(page, "document.querySelector('#answer')?.textContent.includes('2024-01-05')")


def test_a_sound_is_recorded_and_heard_with_its_spectrogram(visit, studio):
    page = visit(state("run", "tones", "try"))
    page.locator("#record").click()
    until(page, "document.querySelector('#record').getAttribute('aria-pressed') === 'true'")
    page.wait_for_timeout(1600)  # Chromium's false microphone beeps once a second
    page.locator("#record").click()
    page.wait_for_selector("canvas.matrix", timeout=30_000)
    page.locator("#another").click()
    until(page, "location.hash.includes('example=0')")
    settled(page)
    assert page.locator("canvas.matrix").count() == 1
    assert page.locator(".problem").count() == 0


def test_words_of_two_tokenizers_stand_over_the_same_letters_and_rows_are_compared(visit, studio):
    page = settled(visit(state("compare", a="classify", b="lstm", text=TEXT)))
    page.wait_for_selector(".ruler")
    assert page.locator(".cut[data-run=classify]").count() == page.locator(".cut[data-run=lstm]").count() == 6
    page.locator("#rows").select_option("0")
    page.locator("#disagree").click()
    page.wait_for_selector("[data-agree]")
    rows = [line.split(",")[0] for line in (studio.data / "avis.csv").read_text(encoding="utf-8").splitlines()[1:]]
    one, other = (attentif.load(studio.runs / name).predict(rows) for name in ("classify", "lstm"))
    agree = sum(a.output == b.output for a, b in zip(one, other, strict=True))
    assert int(page.locator("[data-agree]").get_attribute("data-agree")) == agree
    assert page.locator("#disagreements tbody tr").count() == min(len(rows) - agree, 100)


def test_chosen_runs_stand_side_by_side(visit):
    page = visit()
    for name in ("classify", "lstm", "mamba"):
        page.locator(f'tr[data-run="{name}"] input').check()
    page.locator("#several").click()
    page.wait_for_selector("circle[data-value]")
    assert page.locator("circle[data-value]").count() == 3
    assert page.locator("svg.curve").count() >= 1


def test_a_long_text_is_drawn_by_an_overview_and_squares(visit, studio):
    text = "le film numéro 3 est superbe. ce roman est raté. " * 14
    page = settled(visit(state("run", "language", "inside", text=text, view="matrix", path="decoder.blocks.1.attn", head=1)))
    page.wait_for_selector("canvas.overview")
    page.locator("canvas.overview").click(position={"x": 60, "y": 300})
    settled(page)
    assert page.locator("canvas.matrix").count() == 1
    body = {"text": text, "path": "decoder.blocks.1.attn", "head": 1, "tile": [300, 40]}
    headers = {"X-Attentif-Token": studio.token}
    found = httpx.post(f"{studio.url}/studio/api/runs/language/maps", headers=headers, json=body, timeout=60).json()
    run = attentif.load(studio.runs / "language")
    batch = inspect.make_batch([run.task.prompt(run.tokenizers, text)])
    weights = inspect.attention_steps(run.model, batch, "decoder.blocks.1.attn", head=1, query=310).weights
    own = np.frombuffer(base64.b64decode(found["weights"]["data"]), "<f4").reshape(found["weights"]["shape"])
    np.testing.assert_allclose(own[0, 10], weights[40:136], atol=1e-6)


# ------------------------------------------------------------------------------------------------- reports, course, comfort


def test_a_report_opens_in_a_sandbox_where_only_our_scripts_run(visit, studio):
    page = visit(state("run", "classify", "report"))
    page.frame_locator("iframe.report").locator("h1").wait_for()
    page.__dict__["quiet"] = True  # the refused script is a message of the console
    page.goto(page.url.split("#")[0] + state("run", HOSTILE, "report"))
    page.frame_locator("iframe.report").get_by_role("heading", name="hostile").wait_for()
    page.wait_for_timeout(200)
    assert page.evaluate("[window.hacked, window.leaked]") == [None, None]
    answer = httpx.get(f"{studio.url}/studio/pages/runs/classify", headers={"X-Attentif-Token": studio.token})
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "unsafe-inline" not in re.search(r"script-src ([^;]*)", policy)[1]
    assert httpx.get(f"{studio.url}/studio/pages/runs/classify").status_code == 403
    for path in ("runs/..%2f..%2fetc", "lab/..%2fclassify%2freport", "lab/L1"):
        assert httpx.get(f"{studio.url}/studio/pages/{path}", headers={"X-Attentif-Token": studio.token}).status_code == 404


def test_a_chapter_trains_its_model_and_runs_its_experiment(visit):
    page = visit(state("course", "2"), locale="fr-FR")
    page.locator(".widget button.primary").click()
    page.wait_for_selector(".plane", timeout=60_000)
    assert page.locator(".plane .dot").count() > 10
    page.goto(page.url.split("#")[0] + state("course", "7"))
    until(page, "document.querySelector('main').dataset.state === 'course/7'")
    experiment = page.locator(".experiment").first
    experiment.get_by_role("button", name="Lancer l’expérience").click()
    experiment.get_by_role("button", name="Lire le résultat").wait_for(timeout=60_000)
    experiment.get_by_role("button", name="Lire le résultat").click()
    page.frame_locator("iframe.report").locator("h1").wait_for()


def test_figures_of_the_course_compute_what_they_say(visit):
    page = visit(state("course", "1", merges=2, **{"bpe-text": "abab abc"}))
    assert page.locator("[data-symbols]").get_attribute("data-symbols") == "4"  # ab ab, ab c: no other pair comes twice
    page.goto(page.url.split("#")[0] + state("course", "12", delta=0))
    until(page, "document.querySelector('main').dataset.state === 'course/12'")
    x = [1.0 if 10 <= i < 25 or i == 40 else 0.0 for i in range(60)]
    h, a = 0.0, float(np.exp(-1))
    expected = [h := a * h + (1 - a) * one for one in x]
    drawn = [float(value) for value in page.locator("path[data-values]").nth(1).get_attribute("data-values").split()]
    assert drawn == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("view", [(), ("run", "classify", "try"), ("run", "language", "inside"), ("course", "5")])
def test_nothing_jumps_while_a_view_comes(visit, view):
    page = visit(state(*view)) if view else visit()
    settled(page)
    shift = page.evaluate(
        """() => new Promise((done) => {
            let sum = 0;
            new PerformanceObserver((list) => {
                for (const one of list.getEntries()) if (!one.hadRecentInput) sum += one.value;
            }).observe({ type: "layout-shift", buffered: true });
            setTimeout(() => done(sum), 300);
        })"""
    )
    assert shift <= 0.1  # "good" by the usual measure


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs/tones/answer", {"file": "/etc/passwd"}),
        ("/runs/tones/answer", {"file": "data:audio/wav;base64,bm8="}),
        ("/runs/classify/answer", {"file": "data:text/csv;base64,YQ=="}),
        ("/runs/classify/answer", {"example": 23}),
        ("/runs/tones/answer", {"text": "/etc/passwd"}),
        ("/runs/classify/frames", {"text": "a"}),
        ("/both", {"first": "classify", "second": "nobody"}),
        ("/lab/start", {"name": "../L1"}),
        ("/runs/language/names", {"ids": [99_999]}),
    ],
)
def test_wrong_requests_of_these_views_get_one_sentence(studio, path, body):
    headers = {"X-Attentif-Token": studio.token}
    answer = httpx.post(f"{studio.url}/studio/api{path}", headers=headers, json=body, timeout=60)
    assert answer.status_code == 400, answer.text
    assert "\n" not in answer.json()["error"]["message"]
