"""Files that clients send: their contents as data URIs, never the name of a file of this machine."""

import base64
import binascii
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from attentif.data.images import DATA_URI
from attentif.errors import UsageError
from attentif.tasks.capabilities import Capability
from attentif.tasks.requests import InspectRequest, PredictRequest, Request

URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(;[\w=.+-]+)*;base64,")
SUFFIXES = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
    "application/json": ".jsonl",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
}
USUAL = {"audio": ".wav", "series": ".csv"}


def with_contents(capability: Capability, request: Request, reads: str, scratch: Path) -> Request:
    """The request with what the task can open in the place of every file; anything but a data URI is refused.

    Pictures are read from their URIs. Sounds and series become files in the worker's own folder, removed after the answer.
    """
    if not capability.files or not isinstance(request, PredictRequest):
        return request
    inputs: list[str | dict[str, str]] = []
    for place, given in enumerate(request.inputs):
        if isinstance(given, str):
            if reads not in capability.files:
                raise UsageError(f"input {place}: give an object with {reads!r} and what goes with it")
            given = {reads: given}
        for role in capability.files:
            if role in given:
                given = given | {role: _open_content(given[role], role, place, scratch)}
            elif role == reads:
                raise UsageError(f"input {place}: {role!r} is missing")
        # a text stays in its object: as a string, some tasks would take it for JSON that names a file
        inputs.append(given[reads] if set(given) == {reads} and reads in capability.files else given)
    return request.model_copy(update={"inputs": inputs})


def with_inspected_content(request: InspectRequest, reads: str, roles: Set[str], scratch: Path) -> tuple[InspectRequest, list[str]]:
    """The same for a request whose only input is its text, and the texts in it.

    `roles` are what the run reads from files: its whole input, or fields of a JSON object beside a question.
    """
    if reads in roles:
        return request.model_copy(update={"text": _open_content(request.text, reads, 0, scratch)}), []
    try:
        example: Any = json.loads(request.text) if roles else None
    except (ValueError, RecursionError):
        example = None
    if not isinstance(example, dict):
        return request, [request.text]
    if not roles & example.keys():
        return request, [request.text]
    opened = {role: _open_content(str(value), role, 0, scratch) if role in roles else value for role, value in example.items()}
    return request.model_copy(update={"text": json.dumps(opened)}), [str(value) for role, value in example.items() if role not in roles]


def refuse_names(given: str | Mapping[str, str], roles: Set[str]) -> None:
    """Refuse an input that names a file of this machine, in one of its fields or in the JSON of its text.

    Pictures may be given by content; what else is read from files is sent in another way.
    """
    example: Any = given
    if isinstance(given, str):
        try:
            example = json.loads(given) if roles else None
        except (ValueError, RecursionError):
            return
    for role in roles & example.keys() if isinstance(example, Mapping) else ():
        if role in USUAL or not str(example[role]).startswith(DATA_URI):
            raise UsageError(f"{role}: send the contents of a file, not its name")


def _open_content(uri: str, role: str, place: int, scratch: Path) -> str:
    head = URI.match(uri)
    if head is None:
        raise UsageError(f"input {place}: send the contents of a file as a data URI (data:...;base64,...), not its name")
    if role not in USUAL:  # pictures are opened from the URI itself
        if not uri.startswith(DATA_URI):
            raise UsageError(f"input {place}: a picture is sent as {DATA_URI}...;base64,...")
        return uri
    try:
        content = base64.b64decode(uri[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"input {place}: the data URI is no base64") from None
    path = scratch / f"{secrets.token_hex(8)}{SUFFIXES.get(head[1] or '', USUAL[role])}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return str(path)


def remove_contents(request: Request, scratch: Path) -> None:
    """Delete the files that were made for a request."""
    for path in content_files(request, scratch):
        path.unlink(missing_ok=True)


def content_files(request: Request, scratch: Path) -> Iterator[Path]:
    """The files that were made for a request, in the order of its inputs."""
    for given in (*getattr(request, "inputs", ()), getattr(request, "text", "")):
        for value in (given,) if isinstance(given, str) else given.values():
            if value.startswith(f"{scratch}{os.sep}"):
                yield Path(value)
