"""Two runs on every row of a file: where they disagree, and who is right where the rows are labelled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from attentif.api import Run
from attentif.errors import UsageError
from attentif.serve.studio.jobs import Jobs
from attentif.serve.studio.library import Library
from attentif.serve.studio.messages import BothRequest
from attentif.tasks.base import Example, Task
from attentif.training.config import StoredConfig
from attentif.training.stored_config import find_data

TOGETHER = 64  # rows that are answered at once
SHOWN = 100  # disagreements that a page gets
LONGEST = 400  # characters of a text that is shown


@dataclass
class Disagreement:
    """A row on which two runs disagree."""

    row: int
    text: str
    label: str
    answers: tuple[str, str]
    probabilities: tuple[float | None, float | None]


@dataclass
class Agreement:
    """What was found so far."""

    total: int
    done: int = 0
    agree: int = 0
    labelled: int = 0
    right: list[int] = field(default_factory=lambda: [0, 0])  # of the labelled rows, by run
    differences: list[Disagreement] = field(default_factory=list)
    last: bool = False


def compare_rows(library: Library, jobs: Jobs, asked: BothRequest) -> Iterator[Agreement]:
    """Answer the rows with both runs, some at a time, so that other requests are answered in between."""
    with library.run(asked.first) as run:
        rows, labels = _rows(run, jobs, asked)
    seen = Agreement(len(rows))
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        answers = []
        for id in (asked.first, asked.second):
            with library.run(id) as run:
                answers.append(run.predict(part))
        for number, (given, one, other) in enumerate(zip(part, *answers, strict=True), start):
            label = labels[number] if labels else ""
            seen.agree += one.output == other.output
            seen.labelled += bool(label)
            seen.right[0] += bool(label) and one.output == label
            seen.right[1] += bool(label) and other.output == label
            if one.output != other.output and len(seen.differences) < SHOWN:
                text = given if isinstance(given, str) else " · ".join(given.values())
                chances = (one.probability, other.probability)
                seen.differences.append(Disagreement(number + 1, text[:LONGEST], label, (one.output, other.output), chances))
        seen.done = start + len(part)
        seen.last = seen.done == seen.total
        yield seen


def _rows(run: Run, jobs: Jobs, asked: BothRequest) -> tuple[Sequence[str | Example], Sequence[str]]:
    """Rows and, where they are known, their labels."""
    task: Any = run.task
    if not isinstance(task, Task) or "generate" in run.capabilities or "fill" in run.capabilities:
        raise UsageError("rows are compared where a model answers each with one label or one text")
    if asked.file is not None:
        found = [row.asked for _, row in zip(range(asked.rows), run.questions(jobs.file(asked.file)).rows, strict=False)]
        return found, []
    data = find_data(run.config) if isinstance(run.config, StoredConfig) else None
    if data is None:
        raise UsageError("the data of this run are not known: choose a file")
    table = getattr(task.prepare(data, run.tokenizers, run.model.config, lambda _: None, run.state).test, "table", None)
    if table is None or task.reads not in table.columns:
        raise UsageError("the test split of this run is no table of texts: choose a file")
    roles = [role for role in (task.reads, *task.beside) if role in table.columns]
    texts = [table[role][: asked.rows] for role in roles]
    rows = list(texts[0]) if len(roles) == 1 else [dict(zip(roles, row, strict=True)) for row in zip(*texts, strict=True)]
    return rows, list(table["label"][: asked.rows]) if "label" in table.columns else []
