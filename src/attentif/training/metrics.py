"""`metrics.jsonl`: one JSON object a line, of training (no `split`) and of evaluations (`"split": "valid"`).

A line is written at once, so that a killed process leaves whole lines and at most one torn at the end. When a run is resumed, what was
written after its checkpoint is cut off and written again: the file ends up as if nothing had happened.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attentif.files import finite, flush, name_full_disk

Row = dict[str, Any]


class Metrics:
    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(finite(row), ensure_ascii=False) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with name_full_disk(self.path):
                os.write(handle, line.encode())
        finally:
            os.close(handle)

    def rows(self) -> list[Row]:
        """Every complete line."""
        return [row for row, _ in self._lines()]

    def truncate(self, keep: Callable[[Row], bool]) -> None:
        """Keep the lines up to the first one that is incomplete or rejected."""
        if not self.path.is_file():
            return
        length = 0
        for row, size in self._lines():
            if not keep(row):
                break
            length += size
        os.truncate(self.path, length)
        flush(self.path)

    def flush(self) -> None:
        if self.path.is_file():
            flush(self.path)

    def _lines(self) -> list[tuple[Row, int]]:
        """The rows up to the first incomplete line, each with its length in bytes."""
        found: list[tuple[Row, int]] = []
        for line in self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else ():
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n") or not isinstance(row, dict) or not isinstance(row.get("step"), int):
                break
            found.append((row, len(line)))
        return found
