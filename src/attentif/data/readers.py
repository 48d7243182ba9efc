"""Rows of a file, one by one, each with its line: JSONL, CSV, TSV, Parquet and plain text, gzipped or not.

A file that cannot be read at all raises. A row that cannot be used goes to a `Tolerance`, which raises unless some were allowed.
"""

import csv
import io
import json
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from attentif.data.file_format import DELIMITERS, OLD_EXCEL, format_of, list_missing_settings, open_text
from attentif.data.in_memory import is_frame, name_file
from attentif.errors import DataError, printable, refuse_damaged
from attentif.files import UNPACK_ERRORS, is_packed, open_bytes, unpack_error, unpacked_name
from attentif.limits import ROW_BYTES, check_unpacked

Row = tuple[int, list[str]]  # line (or row number of a Parquet file), values in the order asked for
OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"
WORKBOOKS = (".xlsx", ".xlsm")
HALF_PAIR = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")  # what no byte of a file was kept as
LONGEST_FIELD = 2**31 - 1  # csv refuses fields of more than 128 KiB unless told otherwise
LOOKED_AT = 100  # rows that tell what the columns of a table hold


class Tolerance:
    """Count unusable rows, and raise at the first beyond the limit."""

    def __init__(self, allowed: int = 0) -> None:
        self.allowed = allowed
        self.count = 0
        self.first: list[str] = []

    def bad(self, reason: str, file: Path, line: int | None) -> None:
        self.count += 1
        if self.count > self.allowed:
            more = f" (after {self.allowed} skipped, as allowed)" if self.allowed else ""
            raise DataError(reason + more, file=file, line=line)
        if len(self.first) < 3:
            self.first.append(printable(f"{file}{'' if line is None else f':{line}'}: {reason}"))

    @property
    def notes(self) -> list[str]:
        if not self.count:
            return []
        more = f"; and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return [f"{self.count} bad row{'s' if self.count > 1 else ''} skipped: " + "; ".join(self.first) + more]


class Reader(ABC):
    """Reader of one file; `columns` are its column names, `format` describes the format."""

    columns: list[str]
    format: str

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        self.path, self.tolerance = path, tolerance

    @property
    def about(self) -> str:
        """The file and how it is read, as notes begin."""
        return f"{name_file(self.path)} ({self.format})"

    def _check_names(self, way_out: str, line: int | None = None) -> None:
        for name in self.columns:
            if name and self.columns.count(name) > 1:
                raise DataError(f"two columns are called {name!r}; {way_out}", file=self.path, line=line)

    def _check_texts(self, line: int | None = None) -> None:
        for name in self.columns:
            if problem := text_problem(name):
                raise DataError(f"the column {_readable(name)!r}: {problem}", file=self.path, line=line)

    def rows(self, columns: Sequence[str], lists: Mapping[str, str] | None = None) -> Iterator[Row]:
        """The values of these columns, row by row; bad rows are left to the tolerance. `lists`: the way out for lists, by column."""
        with closing(self.cells(columns)) as found:  # the file too, at once, where a bad row ends the reading
            for line, values in found:
                texts: list[str] = []
                for column, value in zip(columns, values, strict=True):
                    text, problem = cell_text(value, column)
                    if problem:
                        way_out = (lists or {}).get(column) if isinstance(value, list) else None
                        self.tolerance.bad(f"{problem}; {way_out}" if way_out else problem, self.path, line)
                        break
                    texts.append(text)
                else:
                    yield line, texts

    @abstractmethod
    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[Any]], None, None]:
        """The same with typed values: the texts of a CSV file, the numbers, dates and lists of a Parquet file."""


def open_reader(path: Path, tolerance: Tolerance) -> Reader:
    """Open the reader for a file's suffix; unknown suffixes are read as plain text."""
    check_file(path)
    if suffix_of(path) in WORKBOOKS:
        from attentif.data.excel import Excel

        return Excel(path, tolerance)
    kinds: dict[str, type[Reader]] = {
        ".jsonl": JsonLines, ".ndjson": JsonLines, ".json": JsonLines, ".csv": Csv, ".tsv": Csv, ".tab": Csv, ".parquet": Parquet,
    }  # fmt: skip
    return kinds.get(suffix_of(path), PlainText)(path, tolerance)


def first_cells(path: Path, columns: Sequence[str]) -> list[Sequence[Any]]:
    """Cells of a table's first rows, to infer column types; bad rows are skipped here and reported later."""
    return [cells for _, cells in islice(open_reader(path, Tolerance(sys.maxsize)).cells(columns), LOOKED_AT)]


def suffix_of(path: Path) -> str:
    """The suffix that tells the format: `.csv` of avis.csv.gz."""
    return unpacked_name(path).suffix.lower()


def is_plain(path: Path) -> bool:
    return suffix_of(path) not in (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".parquet", *WORKBOOKS)


# -------------------------------------------------------------------------------------------------------------- formats


class Csv(Reader):
    """Delimited fields, quoted as in RFC 4180: a quoted field may hold line ends and doubled quotes."""

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        super().__init__(path, tolerance)
        header = next(text_lines(path, newline=""), "")
        self.delimiter = format_of(path).delimiter or ("\t" if suffix_of(path) in (".tsv", ".tab") else self._sniff(header))
        encoding = format_of(path).encoding
        self.format = f"fields separated by {DELIMITERS[self.delimiter]}{f', {encoding}' if encoding else ''}"
        try:
            self.columns = [name.strip() for name in next(self._parser(), [])]
        except csv.Error as error:
            raise DataError(f"the header cannot be read: {error}", file=path, line=1) from None
        if not any(self.columns):
            raise DataError("the first line is empty; it must hold the column names", file=path, line=1)
        self._check_texts(1)
        self._check_names("is the header line missing?", line=1)

    def _sniff(self, header: str) -> str:
        csv.field_size_limit(LONGEST_FIELD)
        widths = {delimiter: len(next(csv.reader([header], delimiter=delimiter), [])) for delimiter in DELIMITERS}
        widest = [delimiter for delimiter, width in widths.items() if width == max(widths.values())]
        if len(widest) > 1 and widths[widest[0]] > 1:
            choices = " or ".join(DELIMITERS[delimiter] for delimiter in widest)
            ask = list_missing_settings(self.path, decimal=True, dates=True)
            raise DataError(f"cannot tell whether fields are separated by {choices}; say {ask}", file=self.path, line=1)
        return widest[0]

    def _parser(self) -> Any:
        csv.field_size_limit(LONGEST_FIELD)
        return csv.reader(text_lines(self.path, newline=""), delimiter=self.delimiter, strict=True)

    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[str]], None, None]:
        places = [self.columns.index(column) for column in columns]
        parser = self._parser()
        next(parser)
        while True:
            line = parser.line_num + 1
            try:
                fields = next(parser)
            except StopIteration:
                return
            except csv.Error as error:
                if "end of data" in str(error):  # it may have swallowed any number of rows: never tolerated
                    raise DataError("a quote opened in this row is never closed", file=self.path, line=line) from None
                reason = 'text follows a closing quote (inside a quoted field, quotes are written twice: "")'
                self.tolerance.bad(reason if "expected after" in str(error) else str(error), self.path, line)
                continue
            if len(fields) == len(self.columns):
                yield line, [fields[place] for place in places]
            elif fields:  # an empty line is no row
                self.tolerance.bad(f"{len(fields)} fields where the header has {len(self.columns)}", self.path, line)


class JsonLines(Reader):
    """One JSON object a line."""

    format = "JSON lines"

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        super().__init__(path, tolerance)
        if next(text_lines(path), "").lstrip().startswith("["):
            raise DataError("is a JSON list; expected one JSON object per line (jq -c '.[]' makes it so)", file=path, line=1)
        # bad lines before the first good one are told when rows are read, unless there is no good one
        first = next(self._objects(Tolerance(sys.maxsize)), None) or next(self._objects(Tolerance(0)), None)
        if first is None:
            raise DataError("has no rows", file=path)
        self.columns = list(first[1])
        self._check_texts(first[0])

    def _objects(self, tolerance: Tolerance) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(text_lines(self.path), 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                tolerance.bad(f"is not valid JSON: {error.msg.lower()}, at character {error.colno}", self.path, number)
            except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists without end
                tolerance.bad(f"is not usable JSON: {str(error).split(';')[0].lower()}", self.path, number)
            else:
                if isinstance(value, dict):
                    yield number, value
                else:
                    tolerance.bad('is JSON but not an object such as {"text": ..., "label": ...}', self.path, number)

    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[Any]], None, None]:
        for number, value in self._objects(self.tolerance):
            if missing := [column for column in columns if column not in value]:
                self.tolerance.bad(f"has no {missing[0]!r}", self.path, number)
            else:
                yield number, [value[column] for column in columns]


class Parquet(Reader):
    """A Parquet table; line numbers are row numbers, from 1."""

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        super().__init__(path, tolerance)
        with self.open() as table:
            self.columns = list(table.schema_arrow.names)
            self.format = f"{table.metadata.num_rows:,} rows" if is_frame(path) else "Parquet"
        self._check_texts()
        self._check_names("rename one of them")

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Open the file with pyarrow, after checking that the sizes in its header are plausible."""
        import pyarrow.parquet

        whole = io.BytesIO(_decompress(self.path)) if is_packed(self.path) else self.path
        packed = whole.getbuffer().nbytes if isinstance(whole, io.BytesIO) else self.path.stat().st_size
        with refuse_damaged(self.path, "Parquet file"), pyarrow.parquet.ParquetFile(whole) as table:
            about = table.metadata
            check_unpacked(ROW_BYTES * about.num_rows, packed, self.path, f"a table of {about.num_rows:,} rows")
            check_unpacked(sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups)), packed, self.path)
            yield table

    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[Any]], None, None]:
        number = 0
        with self.open() as table:
            for batch in table.iter_batches(batch_size=4096, columns=list(columns)):
                for values in zip(*(_parquet_values(batch.column(column)) for column in columns), strict=True):
                    number += 1
                    if problem := next((f"{c!r} {v.reason}" for c, v in zip(columns, values, strict=True) if isinstance(v, _Bad)), None):
                        self.tolerance.bad(problem, self.path, number)
                    else:
                        yield number, values


@dataclass(frozen=True, slots=True)
class _Bad:
    """A cell that Python has no value for."""

    reason: str


def _parquet_values(column: Any) -> list[Any]:
    """The values of a column, `_Bad` for those out of Python's range: dates after the year 9999, texts that are not UTF-8."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # Python counts microseconds
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, ArithmeticError, pa.ArrowException):
        return [_parquet_value(cell) for cell in column]


def _parquet_value(cell: Any) -> Any:
    import pyarrow as pa

    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return _Bad("holds bytes that are not UTF-8")
    except (ValueError, ArithmeticError, pa.ArrowException):
        return _Bad(f"holds a value of type {cell.type} that is out of range")


class PlainText(Reader):
    """One row per line, without columns: any role is the line itself."""

    format = "plain text"

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        super().__init__(path, tolerance)
        self.columns = []

    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[str]], None, None]:
        for number, line in enumerate(text_lines(self.path), 1):
            yield number, [line.rstrip("\r\n")] * len(columns)


# ---------------------------------------------------------------------------------------------------------------- bytes


def text_lines(path: Path, newline: str = "\n") -> Iterator[str]:
    """Lines with their ends. Bytes that are not UTF-8 are kept as lone surrogates, so that the row that uses them can be named."""
    number = 0
    try:
        with open_text(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline=newline) as lines:
            for line in lines:
                number += 1
                yield line
    except UNPACK_ERRORS as error:
        raise unpack_error(error, path, number) from None


def _decompress(path: Path) -> bytes:
    try:
        with open_bytes(path) as raw:
            return raw.read()
    except UNPACK_ERRORS as error:
        raise unpack_error(error, path) from None


def check_file(path: Path) -> None:
    """Refuse a file that is missing, empty, or not of the type that its name says."""
    if path.is_dir():
        raise DataError("is a folder; name a file", file=path)
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
        packed = is_packed(path)
        if start and packed:
            with open_bytes(path) as raw:
                start = raw.read(4)
    except FileNotFoundError:
        raise DataError("no such file", file=path) from None
    except UNPACK_ERRORS as error:
        raise unpack_error(error, path) from None
    if not start:
        raise DataError("is empty", file=path)
    if start.startswith(b"\x1f\x8b"):
        raise DataError(f"is gzipped {'twice' if packed else 'though its name does not end in .gz'}", file=path)
    if start == b"PAR1" and suffix_of(path) != ".parquet":
        raise DataError("is a Parquet file though its name does not end in .parquet", file=path)
    if start.startswith(b"PK\x03\x04"):
        if suffix_of(path) not in WORKBOOKS:
            raise DataError("is a zip archive or a spreadsheet; unpack it, name the workbook .xlsx, or save the sheet as CSV", file=path)
    elif suffix_of(path) in WORKBOOKS:
        raise DataError("is not an Excel workbook, despite its name", file=path)
    if start == OLD_WORKBOOK:
        raise DataError("is a workbook of Excel 97 or a protected one; save it as .xlsx or CSV", file=path)


# --------------------------------------------------------------------------------------------------------------- values


def cell_text(value: Any, column: str) -> tuple[str, str | None]:
    """A value as text, or the reason why it has none."""
    match value:
        case str():
            return value, text_problem(value)
        case bool():
            return ("true" if value else "false"), None
        case int():
            return str(value), None
        case float():
            if math.isfinite(value):
                return (str(int(value)) if value.is_integer() else repr(value)), None
            return "", f"{column!r} is missing (NaN)" if math.isnan(value) else f"{column!r} is infinite"
        case None:
            return "", f"{column!r} is missing (null)"
        case list() | dict() | tuple():
            return "", f"{column!r} holds a list or an object where text, a number or true/false is expected"
    return "", f"{column!r} holds a value of type {type(value).__name__} where text or a number is expected"


def _readable(name: str) -> str:
    """A name with bytes that are not UTF-8 shown as an older Excel would have meant them, and half surrogate pairs as marks."""
    return HALF_PAIR.sub("?", name).encode(errors="surrogateescape").decode(OLD_EXCEL, errors="replace")


def text_problem(text: str) -> str | None:
    """Why a text cannot be used, if so: bytes that are not UTF-8, half of a surrogate pair, NUL."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            byte, place = code - 0xDC00, len(text[: error.start].encode(errors="surrogateescape"))
            way_out = "save the file as UTF-8 (in Excel: CSV UTF-8), or name its encoding: --encoding cp1252 (Windows, older Excel)"
            return f"byte 0x{byte:02X} is not UTF-8 (at byte {place} of the text); {way_out}"
        return "holds half of a surrogate pair, which is not a character"
    return "holds a NUL byte" if "\0" in text else None
