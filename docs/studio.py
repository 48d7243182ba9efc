"""The pictures of docs/studio.md: `python docs/studio.py RUNS` opens the studio on a folder of runs and photographs it.

RUNS holds reviews-1, reviews-lstm, python-1, python-mamba, numbers-1, digits-1, tones-1 and forecast-1, trained by the recipes that their
names begin with (`python-*` by `stdlib`).
"""

import json
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "images" / "studio"
WAIT = 60_000  # milliseconds for a view
READ = "def read(self, size)"
REVIEW = "Un film magnifique et des acteurs très justes."


def draw_digit(page: Page) -> None:
    """A seven, by the mouse."""
    box = page.locator("canvas.draw").bounding_box()
    assert box is not None
    path = [(0.26, 0.24), (0.74, 0.24), (0.6, 0.5), (0.46, 0.84)]
    page.mouse.move(box["x"] + path[0][0] * box["width"], box["y"] + path[0][1] * box["height"])
    page.mouse.down()
    for x, y in path[1:]:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=8)
    page.mouse.up()
    page.wait_for_selector("#answer", timeout=WAIT)


def write_branches(page: Page) -> None:
    """Two branches, with what could have stood in the place of one token."""
    write = page.locator("button.primary")
    for _ in range(2):
        write.click()
        page.wait_for_selector("#written [role=button] ~ [role=button]", timeout=WAIT)
        settle(page, "document.querySelector('button.primary').textContent !== 'Stop'")
        page.locator("#written [role=button]").nth(5).click()
        settle(page)
        page.locator("#distribution button.name").nth(1).click()
        settle(page)
    write.click()
    settle(page, "document.querySelector('button.primary').textContent !== 'Stop'")
    page.locator("#written [role=button]").nth(5).click()


def rank_heads(page: Page) -> None:
    page.locator("#rank").click()


@dataclass(frozen=True)
class Shot:
    """One picture: a state of the studio, and what is done there before it is taken."""

    name: str
    parts: tuple[str, ...] = ()
    query: dict[str, Any] | None = None
    lang: str = "en"
    dark: bool = False
    width: int = 1300
    height: int = 900
    act: Callable[[Page], None] | None = None

    @property
    def state(self) -> str:
        words = urllib.parse.urlencode(self.query or {}, quote_via=urllib.parse.quote)
        return "#/" + "/".join(self.parts) + (f"?{words}" if words else "")


HEADS = json.dumps([{"kind": "heads", "path": "decoder.blocks.0.attn", "heads": [0, 1]}])
SHOTS = (
    Shot("runs"),
    Shot("several", ("several",), {"ids": "reviews-1,reviews-lstm"}),
    Shot("phone", ("run", "reviews-1", "inside"), {"text": REVIEW}, lang="fr", dark=True, width=390, height=840),
    Shot("try", ("run", "reviews-1", "try"), {"text": REVIEW}, lang="fr", height=720),
    Shot("write", ("run", "python-1", "try"), {"text": "def read(self", "tokens": 16, "temperature": 0.5}, act=write_branches),
    Shot("digits", ("run", "digits-1", "try"), lang="fr", act=draw_digit),
    Shot("sound", ("run", "tones-1", "try"), {"example": 0}),
    Shot("forecast", ("run", "forecast-1", "try"), lang="fr"),
    Shot("inside", ("run", "python-1", "inside"), {"text": READ, "path": "decoder.blocks.1.attn"}, height=1000),
    Shot("matrix", ("run", "numbers-1", "inside"), {"path": "decoder.blocks.0.cross", "view": "matrix"}, lang="fr"),
    Shot("gates", ("run", "reviews-lstm", "inside"), {"text": REVIEW}, dark=True),
    Shot("lens", ("run", "python-1", "inside"), {"text": READ, "view": "lens"}, lang="fr"),
    Shot("change", ("run", "python-1", "change"), {"text": READ, "changes": HEADS}, height=1300, act=rank_heads),
    Shot("compare", ("compare",), {"a": "reviews-1", "b": "reviews-lstm", "text": REVIEW}, lang="fr", height=1000),
    Shot("course", ("course", "5"), lang="fr"),
    Shot("bpe", ("course", "1"), {"merges": 9}),
)


@contextmanager
def open_studio(runs: Path) -> Iterator[str]:
    """The address of a studio in a process of its own."""
    command = [sys.executable, "-m", "attentif", "studio", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


def settle(page: Page, condition: str = "true") -> None:
    """Wait until a view is whole. The page's policy forbids `eval`, which Playwright's own waiting needs."""
    whole = f"document.querySelector('main')?.dataset.state !== undefined && !document.querySelector('[aria-busy]') && ({condition})"
    for _ in range(WAIT // 50):
        page.wait_for_timeout(50)
        if page.evaluate(whole):
            return
    sys.exit(f"error: {page.url} is not whole after {WAIT // 1000} s")


def take(browser: Any, entrance: str, shot: Shot) -> None:
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.dark else "light",
        locale="fr-FR" if shot.lang == "fr" else "en-GB",
    )
    page = context.new_page()
    page.goto(entrance)
    page.goto(f"{entrance.split('?')[0]}{shot.state}")
    settle(page, f"document.querySelector('main').dataset.state === {json.dumps('/'.join(shot.parts))}")
    if shot.act:
        shot.act(page)
        settle(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256).save(FOLDER / f"{shot.name}.png", optimize=True)
    context.close()


def main() -> None:
    runs, *wanted = sys.argv[1:] or ["runs"]
    with open_studio(Path(runs)) as entrance, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for shot in SHOTS:
            if not wanted or shot.name in wanted:
                take(browser, entrance, shot)
                print(shot.name, flush=True)
        browser.close()


if __name__ == "__main__":
    main()
