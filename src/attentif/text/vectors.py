"""Word vectors: neighbours, analogies, and file formats.

    cos(a, b) = aᵀb / ‖a‖‖b‖        angle = arccos cos(a, b)        distance = ‖a − b‖
    a is to b as c is to ?           the word nearest to â − b̂ + ĉ, the question's own words apart (Mikolov et al. 2013), â = a / ‖a‖

| file               | first line | a line, or record                                                 |
|--------------------|------------|-------------------------------------------------------------------|
| word2vec, text     | V D        | word v₁ … v_D                                                     |
| word2vec, binary   | V D        | word, a space, D numbers of 32 bits (little-endian), a line end   |
| GloVe, text        | none       | word v₁ … v_D                                                     |

In a text, a word may hold spaces, and tabs are read as spaces.
"""

import gzip
import io
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attentif.config import did_you_mean
from attentif.errors import DataError, UsageError
from attentif.files import UNPACK_ERRORS, open_bytes, replace_atomically, unpack_error

Floats = NDArray[np.float32]
Format = Literal["word2vec", "word2vec-binary", "glove"]
FORMATS: tuple[Format, ...] = ("word2vec", "word2vec-binary", "glove")
LONGEST_WORD = 10_000  # bytes: beyond, a binary file is no file of vectors
WIDEST = 100_000  # components: the same
BOM = b"\xef\xbb\xbf"  # what some editors begin a file with
ENDS_IN_DECIMAL = re.compile(r" [-+]?\d*\.\d+(e[-+]?\d+)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WordNeighbour:
    """A word and its similarity to another word or point."""

    word: str
    cosine: float
    angle: float  # degrees
    distance: float


@dataclass(frozen=True)
class WordStream:
    """A text as word numbers, iterable repeatedly; BREAK separates sentences."""

    words: list[str]
    pieces: Callable[[], Iterator[NDArray[np.int32]]]
    size: int  # tokens that a pass goes through, for those who show progress


BREAK = -1


class WordVectors:
    """A vector for each word, most frequent first."""

    def __init__(self, words: Sequence[str], matrix: Floats) -> None:
        if len(words) != len(matrix):
            raise ValueError(f"{len(words)} words with {len(matrix)} vectors")
        self.words, self.matrix = list(words), matrix
        self.index = {word: number for number, word in reversed(list(enumerate(self.words)))}

    @classmethod
    def one_hot(cls, words: Sequence[str]) -> "WordVectors":
        """Return one-hot vectors."""
        return cls(words, np.eye(len(words), dtype=np.float32))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.find(word) is not None

    def __getitem__(self, word: str) -> Floats:
        return self.matrix[self.number(word)]

    @property
    def size(self) -> int:
        """Components of a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def unit(self) -> Floats:
        """The vectors scaled to length 1 (zero vectors stay)."""
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        return self.matrix / np.maximum(lengths, np.finfo(np.float32).tiny)

    def find(self, word: str) -> int | None:
        """Return the number of a word as written or in lower case, or None."""
        return self.index.get(word, self.index.get(word.lower()))

    def number(self, word: str) -> int:
        if (number := self.find(word)) is None:
            way_out = self._hyphen_hint(word) or did_you_mean(word, self.words)
            raise UsageError(f"{word!r} has no vector: it is not among the {len(self):,} words{way_out}")
        return number

    def _hyphen_hint(self, word: str) -> str:
        """Hint for a hyphenated word whose parts are known, where no known word has a hyphen."""
        if "-" not in word or any("-" in known for known in self.words) or not all(self.find(part) is not None for part in word.split("-")):
            return ""
        return f", which were cut at hyphens: {', '.join(word.split('-'))} have one each; tokenizer.hyphens=true keeps such words whole"

    def compare(self, one: str, other: str) -> WordNeighbour:
        """Compare `other` to `one`."""
        return self._measure(self[one], [self.number(other)])[0]

    def neighbours(self, word: str, count: int = 10) -> list[WordNeighbour]:
        """Return the nearest words by cosine."""
        own = self.number(word)
        return self._nearest(self.matrix[own], count, {own})

    def analogy(self, a: str, b: str, c: str, count: int = 5) -> list[WordNeighbour]:
        """Answer a − b + c: roi − homme + femme."""
        numbers = [self.number(word) for word in (a, b, c)]
        one, minus, plus = self.unit[numbers]
        return self._nearest(one - minus + plus, count, set(numbers))

    def _nearest(self, point: Floats, count: int, but: Collection[int]) -> list[WordNeighbour]:
        cosines = self.unit @ (point / max(float(np.linalg.norm(point)), 1e-30))
        cosines[list(but)] = -np.inf
        count = min(count, len(self) - len(but))
        best = np.argsort(-cosines, kind="stable")[:count]
        return self._measure(point, best.tolist())

    def _measure(self, point: Floats, numbers: Sequence[int]) -> list[WordNeighbour]:
        found = []
        for number in numbers:
            cosine = float(np.dot(self.unit[number], point) / max(float(np.linalg.norm(point)), 1e-30))
            angle = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
            found.append(WordNeighbour(self.words[number], cosine, angle, float(np.linalg.norm(self.matrix[number] - point))))
        return found


# --------------------------------------------------------------------------------------------------------------- writing


def format_of(path: Path) -> Format:
    """Return the format of a file name: .bin is binary, .vec has a header, others are GloVe's."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return {".bin": "word2vec-binary", ".vec": "word2vec"}.get(suffixes[-1] if suffixes else "", "glove")  # type: ignore[return-value]


def write_vectors(path: Path, vectors: WordVectors, format: Format | None = None) -> None:
    """Write vectors atomically, gzipped if the name ends in .gz."""
    form = format or format_of(path)
    if bad := next((word for word in vectors.words if not word or any(c.isspace() for c in word)), None):
        raise UsageError(f"the word {bad!r} cannot be written: in these files a space ends a word")
    with replace_atomically(path) as temporary, gzip.open(temporary, "wb") if path.suffix == ".gz" else temporary.open("wb") as out:
        if form != "glove":
            out.write(f"{len(vectors)} {vectors.size}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            if form == "word2vec-binary":
                out.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")
            else:
                out.write(f"{word} {' '.join(map(repr, row.tolist()))}\n".encode())


# --------------------------------------------------------------------------------------------------------------- reading


def read_vectors(path: Path, wanted: Collection[str] | None = None) -> WordVectors:
    """Read a file of any format, detected from its content; `wanted` limits the words."""
    with _open(path) as file:
        return _read(file, path, wanted)


def vector_size(path: Path) -> int:
    """Return the number of components from the file's first lines."""
    with _open(path) as file:
        header, rows = _open_rows(file, path)
        return header[1] if header else len(next(iter(rows))[1])


Rows = Iterator[tuple[str, Floats]]
File = io.BufferedReader


@contextmanager
def _open(path: Path) -> Iterator[File]:
    """Open a file; unreadable or truncated files raise DataError."""
    try:
        with open_bytes(path) as file:
            yield file
    except UNPACK_ERRORS as error:
        raise unpack_error(error, path) from None


def _read(file: File, path: Path, wanted: Collection[str] | None) -> WordVectors:
    words: dict[str, Floats] = {}
    header, rows = _open_rows(file, path, wanted)
    for word, row in rows:
        if (wanted is None or word in wanted) and word not in words:
            words[word] = row
    size = header[1] if header else len(next(iter(words.values()), ()))
    return WordVectors(list(words), np.stack(list(words.values())) if words else np.empty((0, size), dtype=np.float32))


def _open_rows(file: File, path: Path, wanted: Collection[str] | None = None) -> tuple[tuple[int, int] | None, Rows]:
    """Return the header, if any, and the rows, at least those of `wanted` words."""
    first = file.readline(WIDEST * 20).removeprefix(BOM)
    if not first.strip():
        raise DataError("is empty", file=path)
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() and len(part) < 19 for part in parts):
        count, size = map(int, parts)
        if not 0 < size <= WIDEST:
            raise DataError(f"its header announces vectors of {size} components", file=path, line=1)
        begin = file.read1(LONGEST_WORD)
        rest = _Rest(begin, file)
        return (count, size), _text_rows(rest, path, count, size, wanted) if _is_text(begin) else _binary_rows(rest, path, count, size)
    return None, _text_rows(_Rest(first, file), path, None, len(parts) - 1, wanted)


def _is_text(begin: bytes) -> bool:
    """Whether the first row consists of decimal numbers."""
    line = begin.split(b"\n", 1)[0].strip()
    try:
        numbers = line.decode().replace("\t", " ").split(" ")[1:]
        return bool(numbers) and all(math.isfinite(float(number)) for number in numbers[:-1])
    except ValueError:
        return False


class _Rest:
    """The bytes read to detect the format, followed by the rest of the file."""

    def __init__(self, begin: bytes, file: File) -> None:
        self.begin, self.file = begin, file

    def line(self) -> bytes:
        before, found, self.begin = self.begin.partition(b"\n")
        return before + found + (b"" if found else self.file.readline())

    def read(self, size: int) -> bytes:
        taken, self.begin = self.begin[:size], self.begin[size:]
        return taken + (self.file.read(size - len(taken)) if len(taken) < size else b"")

    def until(self, sign: bytes) -> bytes:
        found = bytearray()
        while (one := self.read(1)) not in (b"", sign) and len(found) < LONGEST_WORD:
            found += one
        return bytes(found) if one == sign else b""


def _text_rows(rest: _Rest, path: Path, count: int | None, size: int, wanted: Collection[str] | None) -> Rows:
    place = 0 if count is None else 1
    if size < 1:
        raise DataError("is no file of word vectors: a line is a word and its numbers", file=path, line=1)
    rows = 0
    while line := rest.line():
        place += 1
        if not line.strip():
            continue
        try:
            text = line.decode().rstrip("\r\n").replace("\t", " ").rstrip(" ")
        except UnicodeDecodeError:
            raise DataError("is not UTF-8 text", file=path, line=place) from None
        parts = text.rsplit(" ", size)
        if " " in parts[0] and ENDS_IN_DECIMAL.search(parts[0]):
            raise DataError(f"more numbers than the {size} of the others", file=path, line=place)
        if wanted is not None and parts[0] not in wanted and len(parts) > size:
            rows += 1  # of millions of words a model has thousands: the others' numbers need not be read
            continue
        try:
            with np.errstate(over="ignore"):  # what 32 bits cannot hold is infinite, and said below
                row = np.array(parts[1:], dtype=np.float32)
        except ValueError:
            raise DataError(f"not a word and {size} numbers: {text[:40]!r}", file=path, line=place) from None
        if len(row) != size or not np.isfinite(row).all():
            what = f"{len(row)} numbers where the others have {size}" if len(row) != size else "a number is not finite"
            raise DataError(what, file=path, line=place)
        rows += 1
        yield parts[0], row
    _check_count(rows, count, path)


def _binary_rows(rest: _Rest, path: Path, count: int, size: int) -> Rows:
    for number in range(count):
        raw = rest.until(b" ").lstrip(b"\n")
        numbers = rest.read(4 * size)
        if not raw or len(numbers) < 4 * size:
            _check_count(number, count, path)
        try:
            word = raw.decode()
        except UnicodeDecodeError:
            raise DataError(f"is no file of word vectors: word {number + 1} is not UTF-8", file=path) from None
        row = np.frombuffer(numbers, dtype="<f4").astype(np.float32)
        if not np.isfinite(row).all():
            raise DataError(f"a number of the vector of {word!r} is not finite", file=path)
        yield word, row


def _check_count(rows: int, count: int | None, path: Path) -> None:
    if count is not None and rows != count:
        raise DataError(f"its header announces {count:,} words and it holds {rows:,}: is it cut short?", file=path)


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit."""
    return any(unicodedata.category(character)[0] in "LN" for character in token)
