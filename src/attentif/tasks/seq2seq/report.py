"""The report's part of tasks whose answer is a text."""

from collections.abc import Sequence
from typing import TypedDict

from attentif.tasks.answers import Evaluation
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.report import GROUP, NOTHING, WHERE, slices
from attentif.view.blocks import Paragraph, Section, TableBlock
from attentif.view.words import Text, Words


class WrittenAnswer(TypedDict):
    source: str
    written: str
    reference: str


class WrittenDetails(Sliced):
    by_length_metric: str
    answers: list[WrittenAnswer]  # spread over the split
    wrong: list[WrittenAnswer]  # some that are not exactly right, where most are
    signatures: dict[str, str]  # of the libraries that computed the scores


def written_sections(evaluation: Evaluation, title: Text, heads: Sequence[Words], groups: Text = GROUP) -> list[Section]:
    """Scores by length and group, errors, and answers under `title`."""
    if (details := details_of(evaluation, WrittenDetails)) is None:
        return []
    sections = []
    if found := slices(details, details["by_length_metric"], groups=groups):
        sections.append(Section(WHERE, found))
    for entries, shown in ((details["wrong"], Text("Erreurs", "Errors")), (details["answers"], title)):
        if entries:
            rows = [[entry["source"], entry["written"] or NOTHING, entry["reference"]] for entry in entries]
            sections.append(Section(shown, [TableBlock(heads, rows)]))
    tool = "sacrebleu: " if "bleu" in details["signatures"] else ""
    signatures = tool + ", ".join(f"{name} {value}" for name, value in details["signatures"].items())
    sections[-1] = Section(sections[-1].title, [*sections[-1].body, Paragraph(signatures, "note")])
    return sections
