"""Writes the page of a comparison: `python docs/comparison.py runs/ten-models-compare` makes `docs/ten-models.md` and its pictures.

What stands above the line that names the command is written by hand and kept.
"""

import json
import sys
from pathlib import Path
from typing import Any

from photograph import photograph

from attentif.view.blocks import FigureBlock, TableBlock
from attentif.view.caveats import may_not
from attentif.view.comparison_figures import costs, curves, quality
from attentif.view.comparison_tables import cost_table, rates, sizes_table
from attentif.view.markdown import table_lines
from attentif.view.verdict import describe_setting, join_texts, may
from attentif.view.words import Lang, say

DOCS = Path(__file__).parent
LANG: Lang = "en"
DRAWN = {"quality": quality, "curve": curves, "cost": costs}  # of each the first figure


def select_figures(part: dict[str, Any]) -> dict[str, FigureBlock]:
    """The telling figures of one comparison, by the name of their picture."""
    found = {f"{part['name']}-{name}": [one for one in blocks(part) if isinstance(one, FigureBlock)] for name, blocks in DRAWN.items()}
    return {name: blocks[0] for name, blocks in found.items() if blocks}


def write_part(part: dict[str, Any], folder: str) -> list[str]:
    """One comparison: the words, the table, the figures, how rates and sizes were found."""
    lines = [f"## {part['name']}", "", join_texts([describe_setting(part), *may(part)]).en, "", *table_lines(cost_table(part)), ""]
    for name, block in select_figures(part).items():
        lines += [f"![{say(block.title, LANG)}](images/{folder}/{name}.png)", ""]
        if block.about:
            lines += [f"*{say(block.about, LANG)}*", ""]
    lines += ["**What may not be concluded.** " + join_texts(may_not(part)).en, ""]
    lines += ["<details><summary>Learning rates and sizes</summary>", ""]
    for table in [*(block for block in rates(part) if isinstance(block, TableBlock)), sizes_table(part)]:
        lines += [*table_lines(table), ""]
    return [*lines, "</details>", ""]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/comparison.py runs/NAME-compare")
    data = json.loads((Path(sys.argv[1]) / "compare.json").read_text(encoding="utf-8"))
    name, parts = data["name"], data["comparisons"]
    figures = {key: block for part in parts for key, block in select_figures(part).items()}
    photograph({key: block.draw(lang=LANG) for key, block in figures.items()}, DOCS / "images" / name)
    made = ", ".join(f"{tool} {version}" for tool, version in data["versions"].items())
    page, command = DOCS / f"{name}.md", f"`attentif compare {name}`,"
    head = page.read_text(encoding="utf-8").split(command)[0] if page.is_file() else f"# {name}\n\n"
    lines = [
        f"{head}{command} {made}; `python docs/comparison.py {sys.argv[1]}` wrote this page.",
        "",
    ]
    lines += [line for part in parts for line in write_part(part, name)]
    page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
