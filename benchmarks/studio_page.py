"""Times the studio in a headless Chromium: `python benchmarks/studio_page.py runs [--times 5]`.

First view: from the navigation to the paint after which the view is whole, in a fresh profile (nothing cached) and in one that has been
there (conditional requests). Frames: time between frames while a slider moves, and the layout shift meanwhile.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

VIEWS = ("", "try", "inside")
MOVES = 90
# From the start of the navigation to the frame after the one in which the view became whole.
FIRST_VIEW = """() => new Promise((done) => {
    const look = () => {
        const main = document.querySelector("main");
        if (main?.dataset.state === undefined || document.querySelector("[aria-busy]")) return requestAnimationFrame(look);
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
    };
    look();
})"""
# Move a slider back and forth in every frame; what the browser needs more than a frame for is seen in the time between two.
FRAMES = """([selector, moves]) => new Promise((done) => {
    const slider = document.querySelector(selector), times = [];
    let shift = 0, before = null;
    const observer = new PerformanceObserver((list) => { for (const one of list.getEntries()) shift += one.value; });
    observer.observe({ type: "layout-shift" });
    const values = Array.from({ length: 20 }, (_, i) => Number(slider.min) + (i / 19) * (Number(slider.max) - Number(slider.min)));
    const step = (now) => {
        if (before !== null) times.push(now - before);
        before = now;
        if (times.length === moves) { observer.disconnect(); return done({ times, shift }); }
        slider.value = values[times.length % 20];
        slider.dispatchEvent(new Event("input"));
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""


@contextmanager
def open_studio(runs: Path) -> Iterator[str]:
    """The address of a studio in a process of its own."""
    command = [sys.executable, "-m", "attentif", "studio", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        time.sleep(1)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def time_first_view(new_page: Callable[[], Page], entrance: str, state: str, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds to the first view in fresh profiles, and when opened again in them."""
    fresh, again = [], []
    for _ in range(times):
        page = new_page()
        page.goto(f"{entrance}#/{state}")
        fresh.append(page.evaluate(FIRST_VIEW))
        page.goto("about:blank")
        page.goto(f"{entrance.partition('?')[0]}#/{state}")
        again.append(page.evaluate(FIRST_VIEW))
        page.context.close()
    return fresh, again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--text", default="reviews", help="a run that reads texts")
    parser.add_argument("--language", default="language", help="a run that writes")
    parser.add_argument("--chromium", default="chromium")
    asked = parser.parse_args()
    with open_studio(asked.runs) as entrance, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(asked.chromium), args=["--no-sandbox"])

        def new_page() -> Page:
            return browser.new_context(viewport={"width": 1280, "height": 860}).new_page()

        new_page().goto(entrance.partition("?")[0])  # the browser's own start is not the studio's
        for view in VIEWS:
            state = f"run/{asked.text}/{view}" if view else ""
            fresh, again = time_first_view(new_page, entrance, state, asked.times)
            print(f"{view or 'runs':8} first {fresh[0]:5.0f} ms, fresh {_spread(fresh)}, opened again {_spread(again)}", flush=True)
        for state, slider in (
            (f"run/{asked.language}/try", "#temperature"),
            (f"run/{asked.language}/try", "#topp"),
            ("course/5", ".card input[type=range]"),
        ):
            page = new_page()
            page.goto(f"{entrance}#/{state}")
            page.evaluate(FIRST_VIEW)
            page.wait_for_selector(slider)
            if "#" in slider:
                page.locator("button.primary").click()
                page.wait_for_selector("#tree ul li")
                page.evaluate(FIRST_VIEW)
            found: dict[str, Any] = page.evaluate(FRAMES, [slider, MOVES])
            late = sum(one > 25 for one in found["times"])
            print(
                f"{state} {slider}: {MOVES} frames, {_spread(found['times'])}, {late} late, layout shift {found['shift']:.3f}", flush=True
            )
            page.context.close()
        browser.close()


def _spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms"


if __name__ == "__main__":
    main()
