"""The pages in a real browser, where one is installed."""

import re
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest

from attentif.view import AttentionMaps, Contender, FigureBlock, Score, Section, Text
from attentif.view.figures import calibration, confusion_matrix, head_grid, reliability
from attentif.view.report import Cost, Origin, RunReport, SplitScores, write_report

BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium to open the pages with")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
TOKENS = ["[CLS]", "<script>alert(1)</script>", "</script>", "mal"]
FIGURES, MAPS = 7, 2  # result, confusion, calibration, grid, loss, learning rate, parameters


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "report.html"
    weights = {f"layer {i}": np.random.default_rng(i).dirichlet(np.ones(4), size=(3, 4)) for i in range(2)}
    section = Section(
        Text("Tâche", "Task"),
        [
            FigureBlock("Confusion", partial(confusion_matrix, [[5, 1], [2, 7]], TOKENS[1:3])),
            FigureBlock("Calibration", partial(calibration, reliability([0.9, 0.6, 0.7], [1, 0, 1]))),
            FigureBlock("Heads", partial(head_grid, weights)),
        ],
    )
    outcome = SplitScores("accuracy", {"accuracy": Score(0.9, 0.85, 0.94)}, [Contender(TOKENS[1], {"accuracy": Score(0.6)})])
    history = [{"step": step, "loss": 1 / step, "lr": 1e-3} for step in range(1, 60)]
    cross = AttentionMaps(TOKENS[:2], {"cross": weights["layer 0"][:, :2]}, TOKENS)
    done = RunReport(
        *(Text("Titre", "Title"), ["<img src=x onerror=alert(1)>"], outcome, history),
        *(Cost(1.0, 10, None, {"encoder": 5}), Origin("r", "a = 1", {}), [section], [AttentionMaps(TOKENS, weights), cross]),
    )
    write_report(path, done)
    return path


def dom(path, profile, query=""):
    """The document once its scripts have run, without the scripts."""
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=10000", "--dump-dom", f"{path.as_uri()}{query}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)


def test_figures_and_maps_are_drawn_in_french_without_an_error(report, tmp_path):
    html = dom(report, tmp_path, "?lang=fr")
    assert "data-error" not in html
    assert html.count('data-drawn="fr"') == FIGURES + MAPS
    assert html.count('class="main-svg"') >= FIGURES
    assert ">Titre</title>" in html
    assert ">perte</text>" in html
    assert ">loss</text>" not in html
    assert "«&nbsp;[CLS]&nbsp;» regarde «" in html
    assert "&lt;/script&gt;</text>" in html  # a label of the confusion matrix, seen as it was written


def test_the_switch_turns_words_figures_and_maps_into_english(report, tmp_path):
    page = report.read_text(encoding="utf-8")
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)  # lets the test add a script of its own
    act = """<script>addEventListener("load", () => {
        document.querySelector('.langs button[value="en"]').click();
        const head = document.querySelector(".maps .head");
        head.value = "-1";
        head.dispatchEvent(new Event("change"));
        document.querySelectorAll(".maps .line")[0].children[2].focus();
    })</script></body>"""
    clicked = tmp_path / "clicked.html"
    clicked.write_text(page.replace("</body>", act), encoding="utf-8")
    html = dom(clicked, tmp_path / "profile", "?lang=fr")
    assert "data-error" not in html
    assert html.count('data-drawn="en"') == FIGURES + MAPS
    assert ">loss</text>" in html
    assert ">perte</text>" not in html
    assert 'lang="en" data-lang="en"' in html
    assert "“&lt;script&gt;alert(1)&lt;/script&gt;” looks at “" in html
