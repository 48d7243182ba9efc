"""The program as part of a cache key: a SHA-256 of everything in the package that can change a number."""

import hashlib
from functools import cache
from pathlib import Path

import attentif

PACKAGE = Path(attentif.__file__).parent
SUFFIXES = (".py", ".toml")  # the code; presets, recipes and suites


def hash_package() -> str:
    """Hash the sources of this package, once per process: later edits are not what this process runs."""
    return hash_sources(PACKAGE)


@cache
def hash_sources(root: Path) -> str:
    """Hash the name and content of every source file under `root`."""
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return total.hexdigest()
