"""How a text file is written, as given by the user: its encoding, and the delimiter of a table.

Readers are given a path; what was said of it in `[data]` (or `--encoding`) is remembered here by that path. UTF-16 is known by its mark.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from attentif.data.numeric import is_french
from attentif.errors import ConfigError, DataError
from attentif.files import UNPACK_ERRORS, open_bytes

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
OLD_EXCEL = "cp1252"  # what Windows and older Excel write in western Europe
SAMPLE = 1 << 16  # bytes that are looked at
SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4})(?:[ T](\d{1,2}:\d{2})(:\d{2})?)?")


@dataclass(frozen=True, slots=True)
class FileFormat:
    encoding: str | None = None
    delimiter: str | None = None


_said: dict[str, FileFormat] = {}


def describe_file(path: Path, encoding: str | None = None, delimiter: str | None = None) -> Path:
    """Record the encoding and delimiter of a file for its readers; without arguments, neither is known."""
    if encoding or delimiter:
        _said[str(path)] = FileFormat(encoding, delimiter)
    else:
        _said.pop(str(path), None)
    return path


def format_of(path: Path) -> FileFormat:
    return _said.get(str(path), FileFormat())


def check_encoding(name: str | None) -> str | None:
    """Refuse the name of an encoding that Python does not know."""
    try:
        if name is not None and not codecs.lookup(name)._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):
        raise ConfigError(f"encoding: {name!r} is not known; cp1252 (Windows, older Excel), latin-1 and utf-16 are usual") from None
    return name


def open_text(path: Path) -> io.BufferedReader:
    """The bytes of a file as UTF-8, whatever it is written in; those of a file that should be UTF-8 come as they are."""
    raw = open_bytes(path)
    encoding = format_of(path).encoding or MARKS.get(raw.peek(2)[:2])
    if encoding is None or codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii"):
        return raw
    return io.BufferedReader(_Transcoded(raw, path, encoding), 1 << 20)


class _Transcoded(io.RawIOBase):
    """A file of another encoding, read as UTF-8."""

    def __init__(self, raw: io.BufferedReader, path: Path, encoding: str) -> None:
        self.raw, self.path, self.encoding = raw, path, encoding
        self.decoder = codecs.getincrementaldecoder(encoding)()
        self.ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            block = self.raw.read(1 << 16)
            try:
                self.ready = self.decoder.decode(block, final=not block).encode(errors="surrogatepass")
            except UnicodeError as error:
                raise DataError(f"is not {self.encoding}: {_reason(error)}; name another with --encoding", file=self.path) from None
            if not block:
                break
        part, self.ready = self.ready[: len(buffer)], self.ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self.raw.close()
        super().close()


def _reason(error: UnicodeError) -> str:
    return f"byte 0x{error.object[error.start]:02X} has no character" if isinstance(error, UnicodeDecodeError) else str(error)


def list_missing_settings(path: Path, *, decimal: bool = False, dates: bool = False) -> str:
    """Every setting that a file still needs, in one line: encoding, delimiter, decimal commas, date order."""
    try:
        with open_text(path) as raw:
            sample = raw.read(SAMPLE)
    except (DataError, *UNPACK_ERRORS):
        return ""
    found, text = [], sample.decode("utf-8", errors="surrogateescape")
    if format_of(path).encoding is None and re.search("[\udc80-\udcff]", text[:-4]):  # a character may be cut at the end
        found.append(f"--encoding {OLD_EXCEL} (of Windows and older Excel)")
    lines = text.splitlines()[:100]
    delimiter = format_of(path).delimiter or _likely_delimiter(lines)
    if not format_of(path).delimiter and len(_widest(lines[0] if lines else "")) > 1:
        found.append(f"data.delimiter={delimiter!r}")
    cells = [cell for row in islice(csv.reader(lines[1:], delimiter=delimiter), 100) for cell in row]
    if decimal and any("," in cell and is_french(cell) for cell in cells):
        found.append("task.decimal=comma")
    if dates and (order := _date_order(cells)):
        found.append(order)
    return ", ".join(found)


def _widest(header: str) -> list[str]:
    """The delimiters that cut a header into most fields, if there are two at least."""
    widths = {delimiter: len(next(csv.reader([header], delimiter=delimiter), [])) for delimiter in DELIMITERS}
    return [delimiter for delimiter, width in widths.items() if width == max(widths.values()) > 1]


def _likely_delimiter(lines: Sequence[str]) -> str:
    """The one that cuts most lines like the header."""
    likely = lambda delimiter: sum(line.count(delimiter) == lines[0].count(delimiter) > 0 for line in lines)
    return max(DELIMITERS, key=likely) if lines else ","


def _date_order(cells: Sequence[str]) -> str:
    """The option that reads dates such as 31/12/2024, if these are some; day first, unless a cell tells otherwise."""
    dates = [match for cell in cells if (match := SLASHED.fullmatch(cell.strip()))]
    if not dates:
        return ""
    american = any(int(match[3]) > 12 for match in dates)
    sure = american or any(int(match[1]) > 12 for match in dates)
    first, second = ("%m", "%d") if american else ("%d", "%m")
    clock = (" %H:%M" + ("" if dates[0][6] is None else ":%S")) if dates[0][5] else ""
    order = f'task.date_format="{first}{dates[0][2]}{second}{dates[0][2]}%Y{clock}"'
    return order if sure else f"{order} (the day first; %m before %d if it is the month)"
