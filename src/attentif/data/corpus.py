"""Text of any size, streamed from its files.

A corpus is a series of *pieces*, (text, ends): a plain text file is one document, given in pieces of whole lines; each row of a table is
a document. `ends` is true on the last piece of a document. Where `blank_lines` is asked for, the blank lines of a plain text file part
its documents, and belong to none (the input of Devlin et al. 2019).

Where valid and test files are not given, they are cut from train: of plain text the end is kept apart, valid before test (the middle of
a text would give its neighbours away); of tables the rows whose content draws a low number, as everywhere (see `split`).
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path

from attentif.data.columns import LANGUAGE, find_columns
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.file_format import open_text
from attentif.data.readers import PlainText, Tolerance, open_reader, text_lines, text_problem
from attentif.data.split import seeded_order
from attentif.data.table import content_of, digest_of
from attentif.errors import ConfigError, DataError
from attentif.files import UNPACK_ERRORS, unpack_error

Piece = tuple[str, bool]  # text, whether the document ends with it
BLOCK = 1 << 16  # bytes of plain text in a piece: enough to keep every core busy with a few dozen of them
EVERYTHING = (0.0, 1.0)
BLANK_LINES = re.compile(r"(?:^[^\S\n]*\n)+|^[^\S\n]+\Z", re.MULTILINE)
LONGEST_LINE = 1 << 20  # bytes after which a line is cut, or a file without line ends would be read whole


class Corpus(ABC):
    """Pieces of text that can be iterated over repeatedly."""

    digest: str  # the same digest, the same text
    size: int  # bytes that a pass reads, for those who show progress
    notes: list[str]  # what the last whole pass has to say

    @abstractmethod
    def __iter__(self) -> Iterator[Piece]: ...

    def texts(self) -> Iterator[str]:
        return (text for text, _ in self)


@dataclass(frozen=True)
class Corpora:
    """The three corpora of a language model."""

    train: Corpus
    valid: Corpus
    test: Corpus
    notes: list[str]

    @property
    def digest(self) -> str:
        """SHA-256 over the three."""
        return digest_of(getattr(self, split).digest for split in SPLITS)


def load_corpora(config: DataConfig, *, blank_lines: bool = False) -> Corpora:
    """The three corpora of a configuration; files are measured and hashed, texts are read when asked for."""
    if config.name:
        return _load_built_in(config)
    if config.group:
        raise ConfigError(
            "data.group: text that is read as one stream is not cut by groups; leave it out, or give files for valid and test"
        )
    apart = [split for split in SPLITS if not config.files(split)]
    shares = [1.0 - sum(map(config.fraction, apart)), *map(config.fraction, apart)]
    borders = dict(zip(["train", *apart], pairwise([0.0, *accumulate(shares[:-1]), 1.0]), strict=True))
    sources: dict[Split, Files] = {split: Files(config.files(split), config, blank_lines) for split in SPLITS if config.files(split)}
    found: dict[Split, Corpus] = {}
    for split in SPLITS:
        limit = config.limit if split == "train" else 0
        found[split] = FileCorpus(sources.get(split, sources["train"]), borders.get(split, EVERYTHING), limit)
    notes = [note for source in sources.values() for note in source.notes]
    if apart:
        notes.append(f"{' and '.join(apart)} cut from train: the end of plain text, rows drawn by seed {config.seed} of tables")
    return Corpora(found["train"], found["valid"], found["test"], notes)


def file_corpus(files: Sequence[Path], text: str | None = None, skip_bad: int = 0, *, blank_lines: bool = False) -> "FileCorpus":
    """All the text of some files; the column of a table is named, or detected."""
    config = DataConfig(train=[str(file) for file in files], text=text, skip_bad=skip_bad)
    return FileCorpus(Files(files, config, blank_lines), EVERYTHING, 0)


def _load_built_in(config: DataConfig) -> Corpora:
    from attentif.data.builtin import BUILTIN

    entry = BUILTIN[str(config.name)]
    if "text" not in entry.roles:
        raise DataError(f"the built-in set {entry.name!r} has no text (it has {', '.join(entry.roles)}): it is for another task")
    texts = {split: columns["text"] for split, columns in entry.load(config.seed).items()}
    limited = texts["train"][: config.limit or None]
    return Corpora(Documents(limited), Documents(texts["valid"]), Documents(texts["test"]), [])


class Documents(Corpus):
    """Documents already in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._documents = texts
        self.size = sum(len(text.encode()) for text in texts)
        self.digest = digest_of(texts)
        self.notes = []

    def __iter__(self) -> Iterator[Piece]:
        return ((text, True) for text in self._documents)


class Files:
    """Files of text, measured: their columns of texts (none: plain text), their sizes and contents, whether blank lines part them."""

    def __init__(self, files: Sequence[Path], config: DataConfig, blank_lines: bool) -> None:
        self.seed, self.skip_bad = config.seed, config.skip_bad
        self.columns: dict[Path, str | None] = {}
        self.parted: set[Path] = set()  # those of plain text in which blank lines stand between documents
        self.notes: list[str] = []
        for file in files:
            reader = open_reader(file, Tolerance(config.skip_bad))
            column = None if isinstance(reader, PlainText) else find_columns(reader.columns, file, config, LANGUAGE)["text"]
            self.columns[file] = column
            said = f": text from column {column!r}" if column else ""
            if blank_lines and column is None and any(not line.strip() for line in text_lines(file)):
                self.parted.add(file)
                said = ": blank lines part its documents"
            self.notes.append(f"{reader.about}{said}")
        measured = {file: _measure_text(file) for file in self.columns}
        self.sizes = {file: size for file, (size, _) in measured.items()}
        self.digest = digest_of(
            f"{self.columns[file]} {content}{' parted' if file in self.parted else ''}" for file, (_, content) in measured.items()
        )


class FileCorpus(Corpus):
    """The documents of some files, or a share of them: from `share[0]` to `share[1]`, as fractions of the whole."""

    def __init__(self, files: Files, share: tuple[float, float], limit: int) -> None:
        self._files, self._share, self._limit = files, share, limit
        self.size = sum(files.sizes.values())
        self.digest = digest_of([files.digest, f"{share} {limit} {files.seed} {files.skip_bad}"])
        self.notes = []

    def __iter__(self) -> Iterator[Piece]:
        tolerance = Tolerance(self._files.skip_bad)
        found = False
        for piece in self._take_first(self._pieces(tolerance)):
            found = found or bool(piece[0].strip())
            yield piece
        if not found:
            what = "has no text" if self._share == EVERYTHING else "has too little text to keep some apart; give files for valid and test"
            raise DataError(what, file=next(iter(self._files.sizes)))
        self.notes = tolerance.notes

    def _take_first(self, pieces: Iterator[tuple[Piece, bool]]) -> Iterator[Piece]:
        """The first rows of tables and lines of plain text, where a limit is asked for."""
        left = self._limit
        for (text, ends), plain in pieces:
            lines = list(islice(text.splitlines(keepends=True), left)) if plain and self._limit else [text]
            left -= len(lines)
            over = left <= 0 and self._limit > 0
            yield "".join(lines), ends or over
            if over:
                return

    def _pieces(self, tolerance: Tolerance) -> Iterator[tuple[Piece, bool]]:
        """Pieces, and whether they are of plain text."""
        sizes = self._files.sizes
        plain = sum(size for file, size in sizes.items() if self._files.columns[file] is None)
        start, stop = (round(border * plain) for border in self._share)
        for file, column in self._files.columns.items():
            if column is None:
                texts = _plain_pieces(file, start, stop, tolerance)
                yield from ((piece, True) for piece in _mark_ends(texts, parted=file in self._files.parted))
                start, stop = start - sizes[file], stop - sizes[file]
            else:
                yield from (((text, True), False) for text in self._rows(file, column, tolerance))

    def _rows(self, file: Path, column: str, tolerance: Tolerance) -> Iterator[str]:
        low, high = (int(border * 2**64) for border in self._share)
        for line, (text,) in open_reader(file, tolerance).rows([column]):
            if not text.strip():
                tolerance.bad("the text is empty", file, line)
            elif self._share == EVERYTHING or low <= seeded_order(self._files.seed, content_of(text)) < high:
                yield text


def _measure_text(file: Path) -> tuple[int, str]:
    """Bytes and SHA-256 of a file's content, unpacked: the same text gzipped or not is the same text."""
    size, digest = 0, hashlib.sha256()
    for block in _blocks(file, 1 << 20):
        size += len(block)
        digest.update(block)
    return size, digest.hexdigest()


def _blocks(file: Path, size: int) -> Iterator[bytes]:
    try:
        with open_text(file) as raw:
            while block := raw.read(size):
                yield block
    except UNPACK_ERRORS as error:
        raise unpack_error(error, file) from None


def _mark_ends(texts: Iterator[str], *, parted: bool) -> Iterator[Piece]:
    """A file's texts as pieces, the last of each document saying so: the file is one, or has several, parted by blank lines."""
    before = ""
    for text in texts:
        for number, part in enumerate(BLANK_LINES.split(text) if parted else [text]):
            if before and (number or part):  # blank lines stand before every part but the first
                yield before, number > 0
                before = ""
            before = before or part
    if before:
        yield before, True


def _plain_pieces(file: Path, start: int, stop: int, tolerance: Tolerance) -> Iterator[str]:
    """The lines that begin in the bytes from `start` to `stop`, many at a time."""
    place, line = 0, 1
    for block in _line_blocks(file):
        if place >= stop:
            return
        low = 0 if start <= place else _after_line(block, start - place)
        high = len(block) if stop >= place + len(block) else _after_line(block, stop - place)
        if low < high and (text := _decode_text(block[low:high], file, line + block.count(b"\n", 0, low), tolerance)):
            yield text.removeprefix("\ufeff") if place == 0 else text
        place += len(block)
        line += block.count(b"\n")


def _after_line(block: bytes, border: int) -> int:
    """Where the first line that begins at the border, or after it, begins."""
    return len(block) if border > len(block) else (block.find(b"\n", border - 1) + 1 or len(block))


def _line_blocks(file: Path) -> Iterator[bytes]:
    """The bytes of a file, cut after line ends, or inside of a line that has none for very long."""
    rest = b""
    for more in _blocks(file, BLOCK):
        rest += more
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) >= LONGEST_LINE:
            end = rest.rfind(b" ") + 1 or _character_border(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _character_border(raw: bytes) -> int:
    """The last place where UTF-8 may be cut."""
    place = len(raw) - 1
    while place > len(raw) - 4 and raw[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _decode_text(raw: bytes, file: Path, line: int, tolerance: Tolerance) -> str:
    """Text of bytes, with line ends of one kind; lines that are no text are left to the tolerance."""
    text = raw.decode(errors="surrogateescape").replace("\r\n", "\n")
    if text_problem(text) is None:
        return text
    kept = []
    for number, each in enumerate(text.split("\n"), line):
        if problem := text_problem(each):
            tolerance.bad(problem, file, number)
        else:
            kept.append(each)
    return "\n".join(kept)
