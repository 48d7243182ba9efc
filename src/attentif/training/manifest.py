"""Manifests: the SHA-256 of every file of a folder, and of the manifest itself (safetensors has no checksum of its own).

    {"version": 1, "files": {"model.safetensors": "…"}, "sha256": "…"}

A checkpoint is verified as a whole. A finished run is verified before it answers: all files but those that only people read.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attentif.errors import RunError, UsageError
from attentif.files import flush, write_text

MANIFEST = "manifest.json"
VERSION = 1
VERIFY = "ATTENTIF_VERIFY"  # 0: finished runs are used without being verified
NOT_READ_BY_MODELS = ("README.md", "report.html", "metrics.jsonl", "results.json")


class DamagedError(RunError):
    """A file differs from the one that was written."""


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def combine_sha256(files: Sequence[Path]) -> str:
    """The SHA-256 of one file, or of the concatenated digests of several."""
    digests = [sha256(file) for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def render_manifest(values: Mapping[str, Any]) -> str:
    """JSON text of a manifest, with its own SHA-256 as the last entry."""
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return json.dumps(dict(values) | {"sha256": digest}, indent=1)


def write_manifest(folder: Path, *, more: Mapping[str, str] | None = None, **values: Any) -> None:
    """List all files of a folder; `more` are digests that are known: of files still to be written, or hashed by who wrote them."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    files = {name: sha256(folder / name) for name in names if name not in (MANIFEST, "lock", *(more or ()))}
    write_text(
        folder / MANIFEST, render_manifest({"version": VERSION, **values, "files": dict(sorted((files | dict(more or {})).items()))})
    )
    flush(folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The values of a manifest that is itself undamaged."""
    path = folder / MANIFEST
    try:
        text = path.read_bytes().decode("utf-8")
        values = {key: value for key, value in json.loads(text).items() if key != "sha256"}
        if render_manifest(values) != text or not isinstance(values["files"], dict):
            raise DamagedError("is damaged", file=path)
    except PermissionError:  # says nothing about the bytes
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"is damaged or incomplete ({type(error).__name__})", file=path) from None
    if values["version"] != VERSION:
        raise RunError(f"is of version {values['version']}; this Attentif reads version {VERSION}", file=path)
    return values


def find_damage(folder: Path, *, skip: Collection[str] = ()) -> dict[str, str]:
    """What is wrong with each file that differs from the manifest: missing, or changed."""
    found = {}
    for name, expected in read_manifest(folder)["files"].items():
        if name in skip:
            continue
        if Path(name).name != name:
            raise DamagedError(f"names {name!r}, which is outside this folder", file=folder / MANIFEST)
        try:
            if sha256(folder / name) != expected:
                found[name] = "changed"
        except (FileNotFoundError, IsADirectoryError):
            found[name] = "missing"
    return found


def accept_files(folder: Path) -> dict[str, str]:
    """Write the manifest anew from the files as they are; return what differed from the old one."""
    damage = find_damage(folder)
    values = {key: value for key, value in read_manifest(folder).items() if key not in ("version", "files")}
    if damage:
        write_manifest(folder, **values)
    return damage


def verify_folder(folder: Path, *, skip: Collection[str] = ()) -> None:
    """Raise DamagedError unless every listed file is the one that was written."""
    for name, what in find_damage(folder, skip=skip).items():
        raise DamagedError("is missing" if what == "missing" else "is damaged: it does not match its checksum", file=folder / name)


def is_verification_on() -> bool:
    """Whether finished runs are verified before use; ATTENTIF_VERIFY=0 turns it off."""
    given = os.environ.get(VERIFY, "1")
    if given not in ("0", "1"):
        raise UsageError(f"{VERIFY} is 0 or 1, not {given!r}")
    return given == "1"
