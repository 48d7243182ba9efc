"""The first sheet of an Excel workbook as a table."""

import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attentif.data.readers import Reader, Tolerance
from attentif.errors import DataError, refuse_damaged
from attentif.extras import require_extra
from attentif.limits import check_unpacked


class Excel(Reader):
    """A line is a row of the sheet; its first row names the columns. Cells are values, never formulas."""

    def __init__(self, path: Path, tolerance: Tolerance) -> None:
        super().__init__(path, tolerance)
        require_extra("openpyxl")
        with refuse_damaged(path, "Excel workbook"), zipfile.ZipFile(path) as archive:
            check_unpacked(sum(part.file_size for part in archive.infolist()), path.stat().st_size, path)
        with self.sheet() as (sheet, sheets):
            header = next(sheet.iter_rows(max_row=1, values_only=True), ())
            others = f", the first of {sheets} sheets" if sheets > 1 else ""
            self.format = f"Excel, sheet {sheet.title!r}{others}"
        names = ["" if cell is None else str(cell).strip() for cell in header]
        while names and not names[-1]:
            names.pop()
        self.columns = names
        if not any(names):
            raise DataError("the first row of the sheet is empty; it must hold the column names", file=path, line=1)
        self._check_names("rename one of them", line=1)

    @contextmanager
    def sheet(self) -> Iterator[tuple[Any, int]]:
        import openpyxl

        with refuse_damaged(self.path, "Excel workbook"):
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
            try:
                yield book.worksheets[0], len(book.worksheets)
            finally:
                book.close()

    def cells(self, columns: Sequence[str]) -> Generator[tuple[int, Sequence[Any]], None, None]:
        places = [self.columns.index(column) for column in columns]
        with self.sheet() as (sheet, _):
            for line, row in enumerate(sheet.iter_rows(min_row=2, max_col=len(self.columns), values_only=True), 2):
                if any(cell is not None for cell in row):
                    yield line, [row[place] for place in places]
