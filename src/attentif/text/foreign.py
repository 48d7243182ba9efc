"""Trying a third-party tokenizer in a separate process before loading it (`tokenizer_worker.py`)."""

import hashlib
import json
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from attentif.errors import RunError

WORKER = Path(__file__).with_name("tokenizer_worker.py")
LARGEST = 256_000_000  # bytes of a tokenizer.json; the largest published ones have about 35 MB
SECONDS, WAIT = 8, 60  # of processor time, and of the clock where the machine is busy
MEGABYTES = 2048  # and FACTOR times the file
FACTOR = 40


def check_tokenizer(file: Path) -> None:
    """Raise RunError unless a `tokenizer.json` loads, encodes and decodes within limits."""
    try:
        size = file.stat().st_size
        if size > LARGEST:
            raise RunError(f"has {size / 1e6:,.0f} MB; a tokenizer of more than {LARGEST / 1e6:.0f} MB is not read", file=file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", file=file) from None
    if message := _find_fault(file, digest, MEGABYTES + FACTOR * size // 2**20):
        raise RunError(f"is not a tokenizer that can be used: {message}", file=file)


@cache
def _find_fault(file: Path, digest: str, megabytes: int) -> str:  # noqa: ARG001 - a file that changed is tried again
    spec = find_spec("tokenizers")
    folders = [str(Path(spec.origin).parent.parent)] if spec is not None and spec.origin else []
    command = [sys.executable, "-I", str(WORKER), str(file.resolve()), str(megabytes), str(SECONDS), *folders]
    try:
        done = subprocess.run(command, capture_output=True, timeout=WAIT, check=False)
    except subprocess.TimeoutExpired:
        return f"it takes more than {WAIT} seconds to encode short texts"
    try:
        return str(json.loads(done.stdout)["message"])
    except (ValueError, KeyError):  # it was ended before it could answer
        return f"it was ended while it encoded short texts: {SECONDS} seconds, {megabytes:,} MB, or an abort (code {done.returncode})"
