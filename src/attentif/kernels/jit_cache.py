"""A disk cache of compiled kernels, verified before loading.

numba serialises compiled functions as pickles, which can run any code, and damaged machine code can kill the process. The cache folder must
therefore be writable by the user only, and each file starts with the SHA-256 of its key and content. Damaged files are recompiled; if the
folder is unusable, kernels are compiled in each process.
"""

import logging
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from attentif.files import cache_folder, replace_atomically

log = logging.getLogger("attentif")
HASH_SIZE = sha256().digest_size


@cache
def open_folder() -> Path | None:
    """Create the kernel cache folder; None, with one warning, if it is unusable."""
    try:
        root = cache_folder()
        # numba looks at the source of each function alone, and kernels call functions of other files
        sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
        folder = root / "kernels" / sha256(sources).hexdigest()[:16]
        for path in (root, folder.parent, folder):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            if problem := _find_risk(path.stat()):
                warn_once(f"{path}: {problem}, so compiled kernels are neither read nor saved; `chmod 700` it, or set ATTENTIF_CACHE")
                return None
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        warn_once(f"kernel cache: {error}; kernels are compiled in each process. Set ATTENTIF_CACHE to a folder of yours")
        return None
    return folder


def _find_risk(status: os.stat_result) -> str | None:
    """Return why another user could have written this file or folder, or None."""
    if sys.platform == "win32":
        return None  # no such bits: a user's profile is private by default
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "is writable by other users" if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


@cache
def warn_once(message: str) -> None:
    log.warning("%s", message)


def open_cache(function: Callable[..., None]) -> "KernelCache | None":
    """Return the cache of a function; None if it has no source file or the folder is unusable."""
    source = Path(function.__code__.co_filename)  # does not exist for a function typed in a notebook
    folder = open_folder()
    return None if folder is None or function.__closure__ or not source.is_file() else KernelCache(function, folder)


class KernelCache:
    """Numba's cache interface: machine code of one function, a file per signature."""

    def __init__(self, function: Callable[..., None], folder: Path) -> None:
        self.function, self.folder = function, folder
        self.saved = False  # whether the last compilation is on disk
        self.cache_path = str(folder)  # shown in numba's statistics
        code = function.__code__
        source = sha256(Path(code.co_filename).read_bytes()).hexdigest()
        self.identity = (source, function.__qualname__, code.co_firstlineno, sys.version_info[:3])

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Load the compiled function; None if it is not cached."""
        from numba.core.compiler import CompileResult
        from numba.core.serialize import loads

        target.refresh()
        content = self._read(self._key(signature, target.codegen()))
        return None if content is None else CompileResult._rebuild(target, *loads(content))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write a compiled function; only warn if that fails."""
        from numba.core.serialize import dumps

        self.saved = False
        if result.lifted or result.library.has_dynamic_globals:
            return  # refers to addresses of this process
        key, content = self._key(signature, result.codegen), dumps(result._reduce())
        try:
            with replace_atomically(self._path(key)) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_bytes(_hash(key, content) + content)
        except OSError as error:
            warn_once(f"{self.folder}: compiled kernels cannot be saved ({error.strerror}); they are compiled again next time")
        else:
            self.saved = True

    def _key(self, signature: Any, codegen: Any) -> str:
        import numba

        return sha256(repr((self.identity, signature, codegen.magic_tuple(), numba.__version__)).encode()).hexdigest()

    def _path(self, key: str) -> Path:
        return self.folder / f"{self.function.__module__}.{self.function.__name__}.{key[:16]}"

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            with path.open("rb") as file:
                problem, data = _find_risk(os.fstat(file.fileno())), file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            problem, data = f"cannot be read ({error.strerror})", b""
        content = data[HASH_SIZE:]
        if problem is None and data[:HASH_SIZE] == _hash(key, content):
            return content
        log.warning("%s: %s; compiling it again", path, problem or "is damaged")
        return None


def _hash(key: str, content: bytes) -> bytes:
    """SHA-256 of a file's key and content, so that renamed files are refused too."""
    return sha256(key.encode() + content).digest()
