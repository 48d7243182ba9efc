"""A lock file for one writer at a time. The kernel releases it when the process dies."""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from attentif.errors import RunError

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """`with Lock(folder / "lock"):` or a RunError that names the process that holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle: int | None = None

    def __enter__(self) -> Self:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _try_lock(handle)
        except OSError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            who = f"process {holder}" if holder else "another process"
            raise RunError(f"{who} is writing this run; wait for it or stop it", file=self.path.parent) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self.handle = handle
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.handle is not None:  # the file stays: removing it would let two processes lock two files of the same name
            os.close(self.handle)
            self.handle = None
