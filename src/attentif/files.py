"""Files that are whole or not there, whatever happens while they are written."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where things are kept that can be made again: `$ATTENTIF_CACHE`, or `~/.cache/attentif`."""
    return Path(os.environ.get("ATTENTIF_CACHE") or Path.home() / ".cache" / "attentif")


def flush(path: Path) -> None:
    """Bring a file, or the list of names of a folder, to the disk itself."""
    if path.is_dir() and sys.platform == "win32":
        return  # Windows cannot open folders, and keeps their names by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write to; what was written takes the name `path` at the end, in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        flush(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush(path.parent)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(finite(value), ensure_ascii=False, indent=2) + "\n")


def finite(value: Any) -> Any:
    """The same with None for what JSON has no word for: infinity and not-a-number."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
    return value
