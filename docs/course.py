"""Writes the course, measured: `python docs/course.py [runs/lab]` makes `docs/course.md` and its pictures from what `attentif lab` kept.

An experiment without a fresh measurement keeps the section that the page has, with its date.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from photograph import photograph

from attentif.lab.book import describe_seeds, mark_outcome
from attentif.lab.experiment import Part, capital
from attentif.lab.experiments import EXPERIMENTS
from attentif.lab.results import Result, load_result
from attentif.view.blocks import FigureBlock
from attentif.view.words import Lang, duration, say

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "course"
LANG: Lang = "en"
HEAD = """# The course, measured

What five course documents say about transformers, each claim measured by `attentif lab all`: the figures as they came out, written here by
`python docs/course.py`. Verdicts are computed from the numbers by limits that stand in each experiment's file; where a limit or a setting
was chosen or changed after a first look at results, the section says so. [How to read them](lab.md),
[where the documents are wrong](errata.md). Each section has the date of its measurement; times were taken with other work beside.
"""
KEPT = re.compile(r'^<a id="l(\d+)"></a>\n(.*?)(?=^<a id="l|\Z)', re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| \[L(\d+)\].*$", re.MULTILINE)


def figures(result: Result) -> dict[str, FigureBlock]:
    """What an experiment draws, by the name of its picture."""
    drawn = [block for block in result.experiment.figures(result.measurements) if isinstance(block, FigureBlock)]
    return {f"{result.experiment.name}{chr(ord('a') + n) if len(drawn) > 1 else ''}": block for n, block in enumerate(drawn)}


def table(title: str, parts: Sequence[Part]) -> list[str]:
    rows = [f"| {capital(part.found).en} | {capital(part.expected).en} | {part.decided.en} |" for part in parts]
    return [f"| {title} | expected | |", "|---|---|---|", *rows]


def write_experiment(result: Result) -> list[str]:
    """One experiment: the claim, its verdict, what decides it, the figures."""
    experiment, verdict = result.experiment, result.verdict
    lines = [f"## {experiment.name} · {experiment.title.en}", "", f"{capital(experiment.claim).en}: **{verdict.outcome.words.en}**.", ""]
    lines += table("found", verdict.parts)
    if verdict.controls:
        lines += ["", *table("control", verdict.controls)]
    if verdict.remark:
        lines += ["", verdict.remark.en]
    for choice in experiment.choices:
        lines += ["", choice.en]
    for name, block in figures(result).items():
        title = say(block.title, LANG)
        lines += ["", f"![{title}](images/course/{name}.png)"]
        if block.about:
            lines += ["", f"*{say(block.about, LANG)}*"]
    return [
        *lines,
        "",
        f"Measured on {result.date[:10]} in {duration(result.duration).en}, seed {result.settings.seed}{describe_seeds(result).en}.",
        "",
    ]


def main() -> None:
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/lab")
    results = [result for one in EXPERIMENTS.values() if (result := load_result(one, place)) is not None and result.fresh]
    if not results:
        sys.exit(f"error: {place} has no measurement of the experiments as they are; run `attentif lab all` first")
    blocks = {name: block for result in results for name, block in figures(result).items()}
    photograph({name: block.draw(lang=LANG) for name, block in blocks.items()}, PICTURES)
    page = (DOCS / "course.md").read_text(encoding="utf-8")
    rows = {int(found[1]): found[0] for found in ROW.finditer(page)}
    sections = {int(found[1]): found[2].strip("\n") for found in KEPT.finditer(page)}
    for result in results:
        one = result.experiment
        rows[one.number] = f"| [{one.name}](#{one.name.lower()}) | {capital(one.claim).en} | {mark_outcome(result.verdict.outcome).en} |"
        sections[one.number] = "\n".join(write_experiment(result)).strip("\n")
    lines = [HEAD, "| | claim | verdict |", "|---|---|---|", *(rows[number] for number in sorted(rows)), ""]
    for number in sorted(sections):
        lines += [f'<a id="l{number}"></a>', "", sections[number], ""]
    (DOCS / "course.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
