"""A file of answers that grows row by row and survives a kill: `answers.csv`, or one JSON object a line.

Rows go to `.answers.csv.part`; every second `.answers.csv.journal` says how many of its bytes are final and which input row they end
with. Going on truncates the first to what the second says, so that no row is lost or written twice. The finished file takes its name
in one step.
"""

import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from attentif.errors import DataError, RunError, UsageError
from attentif.files import finite, flush, write_json

EVERY = 1.0  # seconds between two lines of the journal
TABLES = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class SkippedRow:
    """A row that could not be answered, and why."""

    line: int
    reason: str


@dataclass
class Journal:
    """How far the answers go."""

    job: str  # digest of what is asked of which file and of which run
    bytes: int = 0  # of the answers that are final
    line: int = 0  # of the last input row that was dealt with
    rows: int = 0  # answered so far
    columns: list[str] = field(default_factory=list)  # of a table
    skipped: list[SkippedRow] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**(values | {"skipped": [SkippedRow(**row) for row in values["skipped"]]}))
        except (ValueError, TypeError, KeyError):
            raise DataError("is damaged; start over with --force", file=path, code="journal-damaged") from None


class AnswerFile:
    """Answers on their way to the file `path`; `with AnswerFile.create(...) as answers: answers.write(...); answers.finish()`."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path, self.journal = path, journal
        self.part, self.journal_path = _working_files(path)
        self.delimiter = TABLES.get(path.suffix.lower())  # None: JSON lines
        self.file = self.part.open("r+b")
        self.file.truncate(journal.bytes)
        self.file.seek(journal.bytes)
        self.saved = time.monotonic()

    @classmethod
    def create(cls, path: Path, job: str) -> Self:
        """Start a new file, discarding partial answers."""
        part, journal_path = _working_files(path)
        part.write_bytes(b"")
        journal = Journal(job)
        try:
            write_json(journal_path, asdict(journal))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return cls(path, journal)

    @classmethod
    def resume(cls, path: Path, job: str) -> Self | None:
        """Resume an interrupted file; None if it was already complete."""
        part, journal_path = _working_files(path)
        if not journal_path.is_file():
            raise UsageError("there is nothing to resume: no interrupted command was writing it", file=path, code="nothing-to-resume")
        journal = Journal.read(journal_path)
        if journal.job != job:
            what = "was begun with another run, another input file or other options; repeat them, or start over with --force"
            raise UsageError(what, file=path, code="resume-differs")
        if not part.is_file():  # killed after the last step but one: the answers have their name already
            journal_path.unlink()
            return None
        if part.stat().st_size < journal.bytes:
            raise DataError("is shorter than its journal says; start over with --force", file=part, code="journal-damaged")
        return cls(path, journal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.file.close()
            return
        with suppress(OSError, RunError, ValueError):  # of a full disk, or of a file that is closed: the journal that is there still holds
            self.save()
        with suppress(OSError):
            self.file.close()
        if not self.journal.rows:  # nothing to go on with
            self.part.unlink(missing_ok=True)
            self.journal_path.unlink(missing_ok=True)

    def write(self, rows: Sequence[Mapping[str, Any]], *, line: int, answered: int) -> None:
        """Append rows; `line` is the last input row that they answer, or that was skipped, `answered` how many inputs they answer."""
        self.file.write(self._encode(rows).encode())
        self.journal.line = max(self.journal.line, line)
        self.journal.rows += answered
        if time.monotonic() - self.saved >= EVERY:
            self.save()

    def save(self) -> None:
        """Flush all rows to disk, then the journal that counts them."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.journal.bytes = self.file.tell()
        write_json(self.journal_path, asdict(self.journal))
        self.saved = time.monotonic()

    def finish(self) -> None:
        """Give the answers their name."""
        self.save()
        self.file.close()
        self.part.replace(self.path)
        flush(self.path.parent)
        self.journal_path.unlink()

    def _encode(self, rows: Sequence[Mapping[str, Any]]) -> str:
        if self.delimiter is None:
            return "".join(json.dumps(finite(row), ensure_ascii=False, default=str) + "\n" for row in rows)
        if not rows:
            return ""
        text = io.StringIO(newline="")
        first = not self.journal.columns
        self.journal.columns = self.journal.columns or list(rows[0])
        writer = csv.DictWriter(
            text, self.journal.columns, restval="", extrasaction="ignore", delimiter=self.delimiter, lineterminator="\n"
        )
        if first:
            writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
        return text.getvalue()


def _cell(value: Any) -> Any:
    """Lists and objects as JSON; the rest as it is."""
    return json.dumps(finite(value), ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _working_files(path: Path) -> tuple[Path, Path]:
    return path.with_name(f".{path.name}.part"), path.with_name(f".{path.name}.journal")


def check_unfinished(path: Path, *, resume: bool, force: bool) -> None:
    """Refuse to overwrite the partial answers of an interrupted command without --force."""
    if not (resume or force) and _working_files(path)[1].is_file():
        raise UsageError(
            "an interrupted command left part of it; continue with --resume, or start over with --force", file=path, code="unfinished"
        )


def describe_job(file: Path, run: Path, **options: Any) -> str:
    """A digest of what decides the answers: the input file as it is now, the run as it is now, the options."""
    parts = [_fingerprint(file), _fingerprint(run / "manifest.json" if run.is_dir() else run), sorted(options.items())]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _fingerprint(path: Path) -> list[Any]:
    try:
        about = path.stat()
    except FileNotFoundError:
        return [str(path.resolve())]
    return [str(path.resolve()), about.st_size, about.st_mtime_ns]
