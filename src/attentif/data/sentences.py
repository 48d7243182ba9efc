"""Read texts of a file one by one, and write their vectors: .npz, .safetensors, .csv.

    .npz, .safetensors   vectors (N, D) float32 · lines (N,) int64, where each text stands in its file
    .csv                 line, text, then a column for each component

None of them can hold code: an .npz is read with `allow_pickle=False`, numpy's default. `data/vector_file.py` writes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attentif.data.columns import LANGUAGE, find_columns
from attentif.data.config import DataConfig
from attentif.data.readers import PlainText, Tolerance, open_reader
from attentif.errors import DataError, UsageError

SUFFIXES = (".npz", ".safetensors", ".csv")


@dataclass(frozen=True)
class Sentences:
    """Texts, and the lines of their file on which they stand (rows, of a Parquet file)."""

    texts: list[str]
    lines: list[int]
    blank: int = 0  # lines of plain text that hold nothing, skipped


def read_sentences(path: Path, column: str | None = None) -> Sentences:
    """The lines of a plain text, or a column of a table, named or detected."""
    found, blank = Sentences([], []), 0
    for line, text in iterate_sentences(path, column):
        if text:
            found.texts.append(text)
            found.lines.append(line)
        else:
            blank += 1
    return Sentences(found.texts, found.lines, blank)


def iterate_sentences(path: Path, column: str | None = None, after: int = 0) -> Iterator[tuple[int, str]]:
    """The same one by one, with their lines, from the line behind `after` on; a blank line of plain text is an empty text."""
    reader = open_reader(path, Tolerance())
    if isinstance(reader, PlainText):
        if column is not None:
            raise UsageError(f"is plain text, and has no column {column!r}", file=path)
        name, plain = "text", True
    else:
        name, plain = find_columns(reader.columns, path, DataConfig(train=str(path), text=column), LANGUAGE)["text"], False
    empty = True
    for line, (text,) in reader.rows([name]):
        if not text.strip() and not plain:
            raise DataError("the text is empty", file=path, line=line)
        empty = empty and not text.strip()
        if line > after:
            yield line, text if text.strip() else ""
    if empty:
        raise DataError("holds no text", file=path)


def check_vectors_path(path: Path) -> None:
    """Refuse unwritable output paths before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"vectors are written to {', '.join(SUFFIXES)}, by the name's end", file=path)
