"""Writes the page of a comparison: `python docs/comparison.py runs/ten-models-compare` makes `docs/ten-models.md` and its pictures."""

import json
import sys
from pathlib import Path
from typing import Any

from photograph import photograph

from attentif.view.blocks import FigureBlock, Table
from attentif.view.caveats import may_not
from attentif.view.comparison_figures import costs, curves, quality
from attentif.view.comparison_tables import cost_table, rates, sizes_table
from attentif.view.markdown import table_lines
from attentif.view.verdict import join_texts, may, setting
from attentif.view.words import Lang, say

DOCS = Path(__file__).parent
LANG: Lang = "en"
HEADS = {
    "four-memories": """# Four kinds of memory

A summary vector, attention over what was read, attention alone, a state space: who translates numbers, and who finds what it has read? A
quarter of a million parameters each, the learning rate of each searched in the same way, three seeds, a minute a run:
[how to read it](reading-a-comparison.md).
""",
    "ten-models": """# Ten models, four kinds of data

Reading opinions, writing Python, recalling by key, translating numbers: ten kinds of memory at a quarter of a million parameters each, the
learning rate of each searched in the same way, three seeds. Runs are short, so this says who learns well in a minute on one core,
and not who would win in the end: [how to read it](reading-a-comparison.md). Made in several takes, some with other work beside: scores do
not depend on that, times do. It was measured before comparisons left a recipe's early stopping out, which only `reviews` has: no run of it
was cut short (all curves have their six points), but trials of its learning rates may have been.
""",
}
DRAWN = {"quality": quality, "curve": curves, "cost": costs}  # of each the first figure


def drawn(part: dict[str, Any]) -> dict[str, FigureBlock]:
    """The telling figures of one comparison, by the name of their picture."""
    found = {f"{part['name']}-{name}": [one for one in blocks(part) if isinstance(one, FigureBlock)] for name, blocks in DRAWN.items()}
    return {name: blocks[0] for name, blocks in found.items() if blocks}


def told(part: dict[str, Any], folder: str) -> list[str]:
    """One comparison: the words, the table, the figures, how rates and sizes were found."""
    lines = [f"## {part['name']}", "", join_texts([setting(part), *may(part)]).en, "", *table_lines(cost_table(part)), ""]
    for name, block in drawn(part).items():
        lines += [f"![{say(block.title, LANG)}](images/{folder}/{name}.png)", ""]
        if block.about:
            lines += [f"*{say(block.about, LANG)}*", ""]
    lines += ["**What may not be concluded.** " + join_texts(may_not(part)).en, ""]
    lines += ["<details><summary>Learning rates and sizes</summary>", ""]
    for table in [*(block for block in rates(part) if isinstance(block, Table)), sizes_table(part)]:
        lines += [*table_lines(table), ""]
    return [*lines, "</details>", ""]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/comparison.py runs/NAME-compare")
    data = json.loads((Path(sys.argv[1]) / "compare.json").read_text(encoding="utf-8"))
    name, parts = data["name"], data["comparisons"]
    figures = {key: block for part in parts for key, block in drawn(part).items()}
    photograph({key: block.draw(lang=LANG) for key, block in figures.items()}, DOCS / "images" / name)
    made = ", ".join(f"{tool} {version}" for tool, version in data["versions"].items())
    lines = [
        HEADS.get(name, f"# {name}\n"),
        f"`attentif compare {name}`, {made}; `python docs/comparison.py {sys.argv[1]}` wrote this page.",
        "",
    ]
    lines += [line for part in parts for line in told(part, name)]
    (DOCS / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
