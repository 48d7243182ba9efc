"""Files: written whole or not at all, and unpacked within limits."""

import gzip
import io
import json
import math
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attentif.errors import DataError
from attentif.limits import check_unpacked

UNPACK_ERRORS = (EOFError, zlib.error, OSError)  # of a gzip file that is cut short, damaged, or none


def cache_folder() -> Path:
    """The folder of files that can be made again: `$ATTENTIF_CACHE`, `$XDG_CACHE_HOME/attentif` or `~/.cache/attentif`."""
    if own := os.environ.get("ATTENTIF_CACHE"):
        return Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "attentif"  # the XDG specification ignores relative paths


def flush(path: Path) -> None:
    """Bring a file, or the list of names of a folder, to the disk itself."""
    if path.is_dir() and sys.platform == "win32":
        return  # Windows cannot open folders, and keeps their names by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Gunzip(io.RawIOBase):
    """The unpacked bytes of a gzip file; DataError where they are out of all proportion to the packed ones."""

    def __init__(self, path: Path) -> None:
        self.path, self.packed, self.unpacked = path, path.stat().st_size, 0
        self.file = gzip.GzipFile(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto1(buffer)
        self.unpacked += count
        check_unpacked(self.unpacked, self.packed, self.path)
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def open_bytes(path: Path) -> io.BufferedReader:
    """The bytes of a file, unpacked where its name ends in .gz; reading raises one of `UNPACK_ERRORS` where it is damaged."""
    return io.BufferedReader(_Gunzip(path), 1 << 20) if path.suffix.lower() == ".gz" else io.BufferedReader(io.FileIO(path), 1 << 20)


def unpack_error(error: Exception, path: Path, lines_read: int = 0) -> DataError:
    """The DataError for one of `UNPACK_ERRORS`."""
    after = f" after {lines_read:,} lines" if lines_read else ""
    if isinstance(error, EOFError):
        return DataError(f"the gzip file is cut short{after}; copy or download it again", file=path)
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return DataError(f"is not a gzip file, or a damaged one{after}", file=path)
    if isinstance(error, FileNotFoundError):
        return DataError("no such file", file=path)
    return DataError(f"cannot be read{after}: {getattr(error, 'strerror', None) or error}", file=path)


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


@contextmanager
def begun(folder: Path, worth: Callable[[], bool]) -> Iterator[None]:
    """A folder to work in, made where there is none. Where the work fails before it was `worth` anything, all that it made is removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    own = bool(made) or not any(folder.iterdir())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if own and not worth():
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for path in made:
                with suppress(OSError):  # somebody else's things are in it by now
                    path.rmdir()
        raise


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, render_json(value))


def render_json(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, indent=2) + "\n"


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
