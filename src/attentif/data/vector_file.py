"""A file of vectors that grows chunk by chunk and survives a kill: .npz, .safetensors or .csv, in constant memory.

Until the last vector is there, `.vectors.npz.part` holds records of a line's number and its vector; the journal is that of answers. The
format is written from them at the end, a few megabytes at a time.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.answer_file import EVERY, AnswerFile
from attentif.files import flush, replace_atomically

ROWS = 4096  # records that are turned into the format at a time


class VectorFile(AnswerFile):
    """Vectors on their way to the file `path`; as `AnswerFile`, with `append` and `complete`."""

    def append(self, lines: Sequence[int], texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Vectors (n, D) of texts on these lines."""
        if self.delimiter is not None:  # rows of text, written as they come
            names = [f"v{number}" for number in range(1, vectors.shape[1] + 1)]  # numpy writes the fewest digits that give a float32 back
            rows = [
                {"line": line, "text": text} | dict(zip(names, map(str, vector), strict=True))
                for line, text, vector in zip(lines, texts, vectors, strict=True)
            ]
            self.write(rows, line=lines[-1], answered=len(lines))
            return
        self.journal.columns = [str(vectors.shape[1])]
        records = np.empty(len(lines), self._record())
        records["line"], records["vector"] = lines, vectors
        self.file.write(records.tobytes())
        self.journal.line, self.journal.rows = lines[-1], self.journal.rows + len(lines)
        if time.monotonic() - self.saved >= EVERY:
            self.save()

    def complete(self, about: Mapping[str, str]) -> None:
        """Write the format and give it its name; `about` is kept where the format has a place for it."""
        if self.delimiter is not None:
            self.finish()
            return
        self.save()
        self.file.close()
        with replace_atomically(self.path) as temporary, temporary.open("wb") as file:
            if self.path.suffix.lower() == ".npz":
                records = np.memmap(self.part, self._record(), mode="r")
                np.savez(file, vectors=records["vector"], lines=records["line"])
            else:
                self._write_safetensors(file, about)
        flush(self.path.parent)
        self.part.unlink()
        self.journal_path.unlink()

    def _record(self) -> np.dtype[Any]:
        return np.dtype([("line", "<i8"), ("vector", "<f4", (int(self.journal.columns[0]),))])

    def _write_safetensors(self, file: IO[bytes], about: Mapping[str, str]) -> None:
        rows, width = self.journal.rows, int(self.journal.columns[0])
        ends = 8 * rows, 8 * rows + 4 * rows * width
        header = {
            "__metadata__": dict(about),
            "lines": {"dtype": "I64", "shape": [rows], "data_offsets": [0, ends[0]]},
            "vectors": {"dtype": "F32", "shape": [rows, width], "data_offsets": list(ends)},
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ("line", "vector"):
            for records in self._pieces():
                file.write(np.ascontiguousarray(records[name]).tobytes())

    def _pieces(self) -> Iterator[NDArray[Any]]:
        records = np.memmap(self.part, self._record(), mode="r")
        for start in range(0, len(records), ROWS):
            yield records[start : start + ROWS]


def open_vector_file(path: Path, job: str, *, resume: bool) -> VectorFile | None:
    """Start or resume; None if it was already complete."""
    return VectorFile.resume(path, job) if resume else VectorFile.create(path, job)
