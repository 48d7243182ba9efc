"""Files: written whole or not at all, and unpacked within limits."""

import errno
import gzip
import io
import json
import math
import os
import re
import shutil
import socket
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from attentif.errors import DataError, RunError
from attentif.limits import check_unpacked

PACKED = (".gz", ".zst", ".zstd")
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


def is_packed(path: Path) -> bool:
    """Whether a file's name says that it is gzip or zstd."""
    return path.suffix.lower() in PACKED


def unpacked_name(path: Path) -> Path:
    """The name without the ending of gzip or zstd: avis.csv of avis.csv.gz."""
    return path.with_suffix("") if is_packed(path) else path


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip or zstd file; DataError where they are out of all proportion to the packed ones."""

    def __init__(self, path: Path) -> None:
        self.path, self.packed, self.unpacked = path, path.stat().st_size, 0
        self.zstd = path.suffix.lower() != ".gz"
        self.file = _open_zstd(path) if self.zstd else gzip.GzipFile(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.zstd:
            found = self.file.read(len(buffer))
            count = len(found)
            buffer[:count] = found
        else:
            count = self.file.readinto1(buffer)
        self.unpacked += count
        check_unpacked(self.unpacked, self.packed, self.path)
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def _open_zstd(path: Path) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")


def open_bytes(path: Path) -> io.BufferedReader:
    """The bytes of a file, unpacked where its name ends in .gz, .zst, .zstd; reading raises one of `UNPACK_ERRORS` where it is damaged."""
    return io.BufferedReader(_Unpacked(path) if is_packed(path) else io.FileIO(path), 1 << 20)


def unpack_error(error: Exception, path: Path, lines_read: int = 0) -> DataError:
    """The DataError for one of `UNPACK_ERRORS`."""
    after = f" after {lines_read:,} lines" if lines_read else ""
    if isinstance(error, EOFError):
        return DataError(f"the gzip file is cut short{after}; copy or download it again", file=path)
    if path.suffix.lower() in (".zst", ".zstd") and "zstd" in str(error).lower():
        return DataError(f"is not a zstd file, or a damaged or truncated one{after}", file=path)
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return DataError(f"is not a gzip file, or a damaged one{after}", file=path)
    if isinstance(error, FileNotFoundError):
        return DataError("no such file", file=path)
    return DataError(f"cannot be read{after}: {getattr(error, 'strerror', None) or error}", file=path)


class DiskFullError(RunError):
    """No space is left for a file, which is not written at all."""


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, of the system or of a library that passes it on as text, says that no space is left."""
    return (
        isinstance(error, DiskFullError)
        or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        or "No space left on device" in str(error)
    )


@contextmanager
def name_full_disk(path: Path) -> Iterator[None]:
    """Raise RunError that names `path` where no space is left for it; other errors pass."""
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError("no space left on the disk; free some and try again", file=path) from None


def writer_name() -> str:
    """Process id and host, for the names of temporary files and folders."""
    return f"{os.getpid()}@{re.sub(r'[^A-Za-z0-9-]', '-', socket.gethostname())}"


def is_abandoned(writer: str) -> bool:
    """Whether a `writer_name` is that of a process of this machine that has ended."""
    process, _, host = writer.partition("@")
    if sys.platform == "win32" or host != writer_name().partition("@")[2] or not process.isdecimal():
        return False  # on Windows there is no asking: `os.kill` ends what it is given
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is somebody else's
        return False
    return False


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` at the end, atomically; what a killed writer of `path` left is removed."""
    for left in path.parent.glob(f".{escape(path.name)}.*@*.tmp"):
        if is_abandoned(left.name.removeprefix(f".{path.name}.").removesuffix(".tmp")) and left.is_file():
            left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{writer_name()}.tmp")
    try:
        with name_full_disk(path):
            yield temporary
            flush(temporary)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush(path.parent)


@contextmanager
def working_folder(folder: Path, worth: Callable[[], bool]) -> Iterator[None]:
    """Create a folder if needed. Delete it again if the work fails before `worth()` is true."""
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
    with replace_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, render_json(value))


def render_json(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, indent=2) + "\n"


def finite(value: Any) -> Any:
    """The value with None in place of infinities and NaN, which JSON cannot represent."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
    return value
