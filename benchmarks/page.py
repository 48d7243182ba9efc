"""RESULTS.md: a section for each measurement, replaced when it is measured again."""

import re
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = """# What was measured
Speed against named peers first (`make bench`; `python -m benchmarks NAME` measures one section again), then quality on real data
(`make real`; `python -m benchmarks.real NAME`).

Speed: contestants take turns in one process, round after round, with the same number of threads. A ratio is the median over the rounds
of the ratio within a round, its quartiles in brackets; above 1, the contestant took longer than the first one of its table.
Quality: every figure is on test examples that training never saw, and nothing was chosen on them unless its section says so.
"""


def replace_section(page: str, title: str, text: str) -> str:
    """The page with one section new: in its old place, or at the end."""
    _, *old = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    sections = {part.splitlines()[0].removeprefix("## "): part for part in old} | {title: text}
    return HEADER + "\n" + "".join(part.rstrip() + "\n\n" for part in sections.values()).rstrip() + "\n"


def put(title: str, text: str) -> None:
    page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    RESULTS.write_text(replace_section(page, title, text), encoding="utf-8")
