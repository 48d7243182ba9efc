"""Answer all rows of a file in constant memory, writing each answer as soon as it is known.

    rows of the file -> chunks -> predict -> rows of answers -> AnswerFile (or the caller)

What was interrupted goes on where it stopped: chunks begin at the same rows, so that the file is the one that an uninterrupted command
would have written.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data import DataConfig, Roles
from attentif.data.answer_file import TABLES, AnswerFile, SkippedRow
from attentif.data.columns import ASKED, OPTIONS, find_columns
from attentif.data.input_rows import AskedRow, SkippingTolerance, choose_kept, count_rows, iterate_rows, split_bad
from attentif.data.readers import PlainText, open_reader
from attentif.errors import DataError, UsageError
from attentif.tasks.answers import Prediction
from attentif.tasks.base import AnyTask, Progress, Say
from attentif.training.load import other_rows

CHUNK = 1024  # rows answered together: enough for batches of similar length
FIRST = 64  # rows of the first chunk, so that progress is seen soon

Answer = Callable[[Sequence[Any]], list[Prediction]]


@dataclass(frozen=True)
class InputRows:
    """Rows of a file to answer, in order, and their number."""

    file: Path
    rows: Iterator[AskedRow]
    total: int
    tolerance: SkippingTolerance
    read: frozenset[str] = frozenset()  # columns that the answers were made from


def open_questions(
    task: AnyTask,
    file: Path,
    column: str | None,
    config: DataConfig | None,
    *,
    keep: Sequence[str] | None,
    tolerance: SkippingTolerance,
) -> InputRows:
    """The rows of a file that a task is to answer; `config` is that of the training data, whose keys for reading files hold here too."""
    if (own := task.inputs(file, column)) is not None:
        if keep:
            raise UsageError(f"--keep names columns of a table, and a run of {task.config.kind} reads whole files", code="no-column")
        rows = (AskedRow(number, asked) for number, asked in enumerate(own, 1) if number > tolerance.after)
        return InputRows(file, rows, len(own), tolerance)
    role, beside = task.reads, task.beside
    reader = open_reader(file, tolerance)
    names = {role: "line"}
    if not isinstance(reader, PlainText):
        read = other_rows(config, {"train": str(file)} | ({role: column} if column else {}))
        roles = Roles((role,), optional=beside, ways={role: ASKED, **{other: f"--set {OPTIONS[other]}" for other in beside}})
        names = find_columns(reader.columns, file, read, roles)
    kept = choose_kept(reader.columns, keep, file)
    found = iterate_rows(reader, names, kept, after=tolerance.after, blank=task.begins_texts)
    return InputRows(file, found, count_rows(file), tolerance, frozenset(names.values()))


@dataclass(frozen=True)
class BulkResult:
    """Result of answering a file: rows answered, rows skipped with reasons, notes on reading."""

    answered: int
    skipped: list[SkippedRow]
    notes: list[str] = field(default_factory=list)

    def describe_skipped(self, file: Path, most: int = 20) -> list[str]:
        """A line for each skipped row."""
        lines = [f"{file}:{row.line}: {row.reason}" for row in self.skipped[:most]]
        return lines + ([f"... and {len(self.skipped) - most:,} more"] if len(self.skipped) > most else [])


# Chunks of what rows ask -> each with what answers it: `answer`, or a cluster that has begun with the chunks that follow.
Ahead = Callable[[Iterator[list[AskedRow]]], Iterator[tuple[list[AskedRow], Answer]]]


def cut_chunks(rows: Iterator[AskedRow], begun: bool) -> Iterator[list[AskedRow]]:
    while chunk := list(islice(rows, CHUNK if begun else FIRST)):
        yield chunk
        begun = True


def answer_rows(
    questions: InputRows, answer: Answer, progress: Progress | None = None, done: int = 0, ahead: Ahead | None = None
) -> Iterator[tuple[int, list[tuple[AskedRow, Prediction]]]]:
    """Answers, chunk by chunk, each with the line that it ends with; `done` rows were dealt with before."""

    def report() -> None:
        if progress is not None:
            seen = done + len(questions.tolerance.skipped)
            progress(seen, max(seen, questions.total))

    report()  # at once: the first chunk compiles kernels
    chunks = cut_chunks(iter(questions.rows), done > 0)
    for chunk, own in ahead(chunks) if ahead is not None else ((chunk, answer) for chunk in chunks):
        ask = lambda rows, own=own: own([row.asked for row in rows])
        yield chunk[-1].line, list(split_bad(chunk, ask, questions.tolerance, questions.file))
        done += len(chunk)
        report()


def answer_into(
    questions: InputRows,
    answer: Answer,
    out: AnswerFile,
    *,
    progress: Progress | None = None,
    say: Say | None = None,
    ahead: Ahead | None = None,
) -> BulkResult:
    """Answer every row into a file and give it its name."""
    as_table, scored = out.path.suffix.lower() in TABLES, True
    notes: dict[str, None] = {}
    for line, found in answer_rows(questions, answer, progress, out.journal.rows, ahead):
        for note in dict.fromkeys(note for _, one in found for note in one.notes):
            if note not in notes and say is not None:
                say(note)
            notes[note] = None
        if not out.journal.columns:  # words and places of a text have other scores in each row: no columns of a table
            scored = len({frozenset(one.scores) for _, one in found}) == 1
        rows = [row for one in found for row in (render_rows(*one, questions.read, scored=scored) if as_table else [render_json(*one)])]
        out.journal.skipped = [row for row in questions.tolerance.skipped if row.line <= line]  # more may have been read ahead
        out.write(rows, line=line, answered=len(found))
    out.journal.skipped = questions.tolerance.skipped
    if not out.journal.rows:
        raise DataError("has no row that can be answered", file=questions.file, code="no-rows")
    out.finish()
    return BulkResult(out.journal.rows, questions.tolerance.skipped, list(notes))


def embed_into(
    texts: Iterator[tuple[int, str]],
    embed: Callable[[list[str]], NDArray[np.float32]],
    *targets: Callable[[list[int], list[str], NDArray[np.float32]], None],
    done: int = 0,
    total: int = 0,
    progress: Progress | None = None,
) -> int:
    """Give every text's line, the text and its vector to the targets, chunk by chunk; the number of blank lines."""
    blank = 0
    if progress is not None:  # the first chunk compiles kernels
        progress(done, max(total, done))
    while chunk := list(islice(texts, CHUNK if done else FIRST)):
        lines, own = [line for line, text in chunk if text], [text for _, text in chunk if text]
        done, blank = done + len(chunk), blank + len(chunk) - len(own)
        if own:
            vectors = embed(own)
            for target in targets:
                target(lines, own, vectors)
        if progress is not None:
            progress(done, max(total, done))
    return blank


def write_answers(predictions: Sequence[Prediction], path: Path) -> int:
    """Write answers computed earlier; return the number of rows written."""
    as_table = path.suffix.lower() in TABLES
    scored = len({frozenset(one.scores) for one in predictions}) == 1
    rows = [row for one in predictions for row in (render_rows(AskedRow(0, ""), one, scored=scored) if as_table else [asdict(one)])]
    with AnswerFile.create(path, "") as out:
        out.write(rows, line=0, answered=len(predictions))
        out.finish()
    return len(rows)


def render_json(asked: AskedRow, one: Prediction) -> dict[str, Any]:
    """The columns that are kept, then all that is answered."""
    return _join(asked.kept, asdict(one))


def render_rows(asked: AskedRow, one: Prediction, read: frozenset[str] = frozenset(), *, scored: bool = True) -> list[dict[str, Any]]:
    """The same as rows of a table; an answer that is a table itself (a forecast) has several."""
    if one.table:
        return [_join(asked.kept, row) for row in one.table]
    labels = sorted(one.scores) if scored else []
    own = {"output": one.output, "probability": one.probability} | {f"p({label})": one.scores[label] for label in labels}
    return [_join(asked.kept, own if read and read <= asked.kept.keys() else {"input": one.input} | own)]


def _join(kept: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Both, the answer's names changed where a column has them already."""
    return kept | {name if name not in kept else f"answer_{name}": value for name, value in own.items()}
