"""The text of the running Python's standard library: real text that every machine has, for language modelling.

A document is one module's source; of files with the same text only the first is taken, or one could be trained on and tested on.
A file's split depends on its relative path and the seed alone, so adding a file moves no other.
The text differs between versions of Python: `content_hash` says which one a run has read.
"""

import os
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from attentif.data.builtin.registry import BuiltIn
from attentif.errors import DataError, UsageError

EXCLUDED = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})
SPLITS = ("train", "valid", "test")
VALID_SHARE = TEST_SHARE = 0.05


class SourceText(NamedTuple):
    name: str  # relative path, with forward slashes on every system
    text: str


def load(seed: int = 0) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `text` and `name` (the file's path inside the library)."""
    splits: dict[str, dict[str, list[str]]] = {split: {"text": [], "name": []} for split in SPLITS}
    for document in _documents():
        columns = splits[split_of(document.name, seed)]
        columns["text"].append(document.text)
        columns["name"].append(document.name)
    return splits


def documents(split: str, seed: int = 0) -> Iterator[SourceText]:
    """The documents of one split, in order of path, read one at a time."""
    if split not in SPLITS:
        raise UsageError(f"stdlib has no split {split!r}: choose from {', '.join(SPLITS)}")
    return (document for document in _documents() if split_of(document.name, seed) == split)


def split_of(name: str, seed: int = 0) -> str:
    """The split of a file, from its path and the seed."""
    draw = int.from_bytes(sha256(f"{seed}:{name}".encode()).digest()[:8], "big") / 2**64
    return "valid" if draw < VALID_SHARE else "test" if draw < VALID_SHARE + TEST_SHARE else "train"


def content_hash() -> str:
    """SHA-256 of every document's name and text: two runs with the same hash have read the same library."""
    digest = sha256()
    for document in _documents():
        for part in document:
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def _documents() -> Iterator[SourceText]:
    root = Path(sysconfig.get_path("stdlib"))
    seen: set[bytes] = set()
    for name in sorted(_names(root)):
        text = _read(root / name)
        content = sha256(text.encode()).digest()
        if text.strip() and content not in seen:
            seen.add(content)
            yield SourceText(name, text)
    if not seen:
        raise DataError("this Python comes without the sources of its standard library: use a text file of your own", file=root)


def _names(root: Path) -> Iterator[str]:
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name not in EXCLUDED]  # pruned in place: site-packages may be huge
        yield from ((Path(folder) / name).relative_to(root).as_posix() for name in files if name.endswith(".py"))


def _read(path: Path) -> str:
    """The file's text, or nothing where it is not UTF-8 (a few modules declare another encoding)."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


SET = BuiltIn(
    name="stdlib",
    roles=("text",),
    description="the source text of the running Python's standard library, one document a file",
    size="about 10 MB in several hundred files, 90 % train, 5 % valid, 5 % test (depends on the Python)",
    synthetic=False,
    load=load,
)
