"""The page of a comparison: quality, doubts, differences, curves, costs. Drawn from `compare.json` alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attentif.view.blocks import Block, Cell, CodeBlock, Paragraph, Section, TableBlock
from attentif.view.caveats import may_not
from attentif.view.comparison_figures import costs, curves, differences, quality
from attentif.view.comparison_tables import cost_table, quality_table, rates, sizes_table
from attentif.view.page import Fragment, Page, write
from attentif.view.verdict import Part, describe_setting, join_texts, may
from attentif.view.words import Text, count

TITLE = Text("Comparaison", "Comparison")


def comparison_page(path: Path, data: Mapping[str, Any]) -> None:
    """Write `report.html`, whole or not at all."""
    parts = data["comparisons"]
    if len(parts) == 1:
        lead, sections = result(parts[0]), part_sections(parts[0])
    else:
        lead, sections = [block for part in parts for block in headline(part, part["name"])], []
        for part in parts:
            sections += [
                Section(part["name"], [*quality(part), quality_table(part)]),
                *(prefix_title(part["name"], section) for section in part_sections(part)),
            ]
    sections.append(Section(Text("Comment cela a été fait", "How it was done"), origin(data), folded=True))
    write(path, Page(Text(f"{TITLE.fr} : {data['name']}", f"{TITLE.en}: {data['name']}"), sections, lead))


def comparison_fragment(data: Mapping[str, Any]) -> Fragment:
    """What a notebook shows."""
    return Fragment([Section(part["name"], [*result(part), cost_table(part)]) for part in data["comparisons"]])


def part_sections(part: Part) -> list[Section]:
    found = [
        Section(Text("Ce qui ne peut pas être conclu", "What may not be concluded"), doubts(part)),
        Section(Text("Différences", "Differences"), differences(part)),
        Section(Text("Courbes", "Curves"), curves(part)),
        Section(Text("Ce que cela coûte", "What it costs"), costs(part)),
        Section(Text("Taux d’apprentissage", "Learning rates"), rates(part)),
        Section(Text("Tailles", "Sizes"), [sizes_table(part)]),
    ]
    return [section for section in found if section.body]


def prefix_title(name: str, section: Section) -> Section:
    """A section of one of several comparisons."""
    assert isinstance(section.title, Text)
    return replace(section, title=Text(f"{name} : {_small(section.title.fr)}", f"{name}: {_small(section.title.en)}"))


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


def headline(part: Part, name: str | None = None) -> list[Block]:
    """The best model and the evidence for it; then what was compared."""
    found = join_texts(may(part))
    said = found if name is None else Text(f"{name} : {found.fr}", f"{name}: {found.en}")
    return [Paragraph(said, "lead"), Paragraph(describe_setting(part), "note")]


def result(part: Part) -> list[Block]:
    """The first screen: the words, the intervals, the table."""
    return [*headline(part), *quality(part), quality_table(part)]


def doubts(part: Part) -> list[Block]:
    """Every caveat, and every failed run with its error."""
    failed = [Paragraph(f"{run['model']}, {run['seed']}: {run['failed']}", "warning") for run in part["runs"] if run["failed"]]
    return [*(Paragraph(reason) for reason in may_not(part)), *failed]


def origin(data: Mapping[str, Any]) -> list[Block]:
    """Data, machine, versions, the suite itself."""
    import json

    notes = [Paragraph(f"{part['name']}: {note}") for part in data["comparisons"] for note in part["data"]["notes"]]
    machine, versions = data["machine"], data["versions"]
    facts: list[list[Cell]] = [[key, str(value)] for key, value in {**machine, **versions}.items()]
    side = Text(
        "{jobs} apprentissages à la fois : côte à côte, ils se disputent la mémoire, et les durées valent pour cette façon de faire.",
        "{jobs} runs at a time: side by side they share the memory's bandwidth, and times hold for this way of doing it.",
    ).with_(jobs=count(machine["jobs"]))
    table = TableBlock([Text("quoi", "what"), Text("combien", "how much")], facts)
    return [
        *notes,
        *([Paragraph(side, "note")] if machine["jobs"] > 1 else []),
        table,
        CodeBlock(json.dumps(data["suite"], indent=2, ensure_ascii=False)),
    ]
