"""Examples in memory, each with its location."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from attentif.data.config import SPLITS
from attentif.data.in_memory import is_frame

# roles that a model reads; the others are answers
READ = ("text", "pair", "source", "prefix", "tokens", "image", "question", "context", "signal")


@dataclass(frozen=True)
class Table:
    """Rows by role: "text", "label", "pair", "group", "source", "target"."""

    name: str  # "train", "valid" or "test"
    columns: dict[str, list[str]]
    files: list[str]  # where rows come from
    places: np.ndarray  # (rows, 2): which of the files, and the line in it

    @classmethod
    def of_inputs(cls, columns: dict[str, list[str]]) -> "Table":
        """A table of new inputs, whose places are their numbers."""
        rows = len(next(iter(columns.values())))
        return cls("input", columns, ["input"], np.stack([np.zeros(rows, np.int64), np.arange(1, rows + 1)], axis=1))

    @classmethod
    def of_files(cls, columns: dict[str, list[str]], files: list[str]) -> "Table":
        """A table of new inputs, each of which is a whole file (or has a name of its own)."""
        return cls("input", columns, files, np.stack([np.arange(len(files)), np.zeros(len(files), np.int64)], axis=1))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, role: str) -> list[str]:
        return self.columns[role]

    def place(self, row: int) -> str:
        """`file:line` of a row; of one that is a whole file (a picture, a recording), whose line is 0, the file."""
        file, line = self.places[row]
        if is_frame(self.files[file]):
            return f"row {line}"
        return f"{self.files[file]}:{line}" if line else self.files[file]

    def take(self, rows: Sequence[int] | np.ndarray, name: str | None = None) -> "Table":
        """Select rows, in the order given."""
        columns = {role: [values[row] for row in rows] for role, values in self.columns.items()}
        part = Table(name or self.name, columns, self.files, self.places[np.asarray(rows, dtype=np.int64)])
        part.__dict__["contents"] = [self.contents[row] for row in rows]  # as if it had worked them out itself
        return part

    @cached_property
    def contents(self) -> list[bytes]:
        """A digest of what a model reads of each row; rows with the same digest are duplicates."""
        if "audio" in self.columns:
            return [content_of_file(path) for path in self.columns["audio"]]
        roles = [role for role in READ if role in self.columns]
        return [content_of(*row) for row in zip(*(self.columns[role] for role in roles), strict=True)]


def content_of(*texts: str) -> bytes:
    """A digest of texts, without regard to case and spaces."""
    joined = "\0".join(" ".join(text.casefold().split()) for text in texts)
    return hashlib.blake2b(joined.encode(), digest_size=16).digest()


def content_of_file(path: str) -> bytes:
    """A digest of a file's bytes; of its name where it is none (a built-in set) or cannot be read, which is told when it is used."""
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except OSError:
        return content_of(path)


@dataclass(frozen=True)
class Splits:
    """Three tables, the classes in order, and notes for the user."""

    train: Table
    valid: Table
    test: Table
    labels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of every value in its place: the same digest, the same data."""
        return digest_of(
            part
            for split in SPLITS
            for role, values in sorted(getattr(self, split).columns.items())
            for part in (f"{split}:{role}:{len(values)}", *values)
        )


def digest_of(parts: Iterable[str]) -> str:
    """SHA-256 of texts, each preceded by its length so that their borders count."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        total.update(len(raw).to_bytes(8, "little"))
        total.update(raw)
    return total.hexdigest()
