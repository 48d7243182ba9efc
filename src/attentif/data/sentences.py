"""The texts of a file, one by one, and vectors of them in another: .npz, .safetensors, .csv.

    .npz, .safetensors   vectors (N, D) float32 · lines (N,) int64, where each text stands in its file
    .csv                 line, text, then a column for each component

None of them can hold code: an .npz is read with `allow_pickle=False`, numpy's default.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attentif.data.columns import LANGUAGE, find_columns
from attentif.data.config import DataConfig
from attentif.data.readers import PlainText, Tolerance, open_reader
from attentif.errors import DataError, UsageError
from attentif.files import replacing

SUFFIXES = (".npz", ".safetensors", ".csv")


@dataclass(frozen=True)
class Sentences:
    """Texts, and the lines of their file on which they stand (rows, of a Parquet file)."""

    texts: list[str]
    lines: list[int]
    blank: int = 0  # lines of plain text that hold nothing, passed over


def read_sentences(path: Path, column: str | None = None) -> Sentences:
    """The lines of a plain text, or a column of a table, named or detected."""
    reader = open_reader(path, Tolerance())
    if isinstance(reader, PlainText):
        if column is not None:
            raise UsageError(f"is plain text, and has no column {column!r}", file=path)
        name, plain = "text", True
    else:
        name, plain = find_columns(reader.columns, path, DataConfig(train=str(path), text=column), LANGUAGE)["text"], False
    found, blank = Sentences([], []), 0
    for line, (text,) in reader.rows([name]):
        if text.strip():
            found.texts.append(text)
            found.lines.append(line)
        elif plain:
            blank += 1
        else:
            raise DataError("the text is empty", file=path, line=line)
    if not found.texts:
        raise DataError("holds no text", file=path)
    return Sentences(found.texts, found.lines, blank)


def check_vectors_path(path: Path) -> None:
    """Before anything is computed: what could not be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"vectors are written to {', '.join(SUFFIXES)}, by the name's end", file=path)


def write_vectors(path: Path, vectors: NDArray[np.float32], sentences: Sentences, about: Mapping[str, str]) -> None:
    """Whole or not at all; `about` says how they came to be, where the format has a place for it."""
    lines = np.array(sentences.lines, dtype=np.int64)
    with replacing(path) as temporary:
        match path.suffix.lower():
            case ".npz":
                with temporary.open("wb") as file:
                    np.savez(file, vectors=vectors, lines=lines)
            case ".safetensors":
                from safetensors.numpy import save_file

                save_file({"vectors": vectors, "lines": lines}, temporary, metadata=dict(about))
            case _:
                _write_csv(temporary, vectors, sentences.lines, sentences.texts)


def _write_csv(path: Path, vectors: NDArray[np.float32], lines: Sequence[int], texts: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["line", "text", *(f"v{number}" for number in range(1, vectors.shape[1] + 1))])
        for line, text, vector in zip(lines, texts, vectors, strict=True):
            rows.writerow([line, text, *map(str, vector)])  # numpy writes the fewest digits that give a float32 back
