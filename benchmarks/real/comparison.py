"""Four kinds of memory, three seeds each, on numbers and on associative recall: `attentif compare four-memories`, in about an hour."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from attentif.view.comparison_tables import cost_table
from attentif.view.markdown import table_lines

TITLE = "Four kinds of memory compared"
ABOUT = """
`attentif compare four-memories`: the same data, the same parameters, a learning rate searched for each model, three seeds.
Intervals are 95 % over seeds (Student's t); differences are paired by seed and corrected (Holm).
The report is `runs/four-memories-compare/report.html`.
"""
LONG = False
QUICK = ("train.steps=2", "train.epochs=0", "data.limit=300", "--seeds", "1", "--lr", "3e-3")


def run(quick: bool) -> Iterator[str]:
    """Interrupted, the same measurement goes on; what is only to be seen running is thrown away."""
    with tempfile.TemporaryDirectory() as place:
        data = run_comparison([*QUICK, "--out", place] if quick else [])
    for part in data["comparisons"]:
        yield write_part(part)


def run_comparison(words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "attentif", "compare", "four-memories", *words, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"attentif compare four-memories failed ({done.returncode})")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def write_part(part: dict[str, Any]) -> str:
    """One comparison: the table, and what may be concluded."""
    return "\n".join([f"### {part['name']}", "", *table_lines(cost_table(part)), "", part["conclusion"]["en"], ""])
