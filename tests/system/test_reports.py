"""The reports of finished runs: their titles, the units they count in, and how they look in a browser of any width."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Done

pytestmark = pytest.mark.system
BROWSER = shutil.which("chromium")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
RUNS = ("classify", "translate", "language")
MEASURE = """<script>addEventListener("load", () => setTimeout(() => {
    const page = document.documentElement;
    page.dataset.wide = page.scrollWidth - page.clientWidth;
    page.dataset.contents = document.querySelector(".contents").open;
}, 500))</script></body>"""


def page_of(run: str) -> str:
    return Path("runs", run, "report.html").read_text(encoding="utf-8")


def test_a_report_is_titled_by_recipe_data_score_and_day(typed: Callable[..., Done]) -> None:
    found = re.search(r'<title data-fr="(.*?)" data-en="(.*?)">', page_of("classify"))
    assert found is not None
    french, english = found.groups()
    assert re.fullmatch(r"classify · avis\.csv · accuracy \d+\.\d% · \d+ \w+ 20\d\d", english), english
    assert re.fullmatch(r"classify · avis\.csv · exactitude \d+,\d\u202f% · \d+(er)? \w+ 20\d\d", french), french


def test_a_language_run_counts_tokens(typed: Callable[..., Done]) -> None:
    assert re.search(r"on the test set \([\d,]+ tokens\)", page_of("language"))
    assert re.search(r"trained on [\d,]+ tokens", page_of("language"))
    shown = typed("evaluate", "runs/language")
    assert "tokens" in shown.out
    assert "examples" not in shown.out


@pytest.mark.skipif(BROWSER is None, reason="no chromium to open the pages with")
@pytest.mark.parametrize(("width", "contents"), [(500, "false"), (800, "false"), (1300, "true")])  # no window of chromium is narrower
def test_no_page_is_wider_than_its_window(typed: Callable[..., Done], tmp_path: Path, width: int, contents: str) -> None:
    for run in RUNS:
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page_of(run)).replace("</body>", MEASURE)
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        place = f"{(tmp_path / 'page.html').as_uri()}?lang=fr"
        command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]
        done = subprocess.run(
            [*command, "--virtual-time-budget=10000", "--dump-dom", place], capture_output=True, text=True, timeout=120, check=True
        )
        assert "data-error" not in done.stdout
        assert 'data-wide="0"' in done.stdout, run
        assert f'data-contents="{contents}"' in done.stdout, run
