"""Errors written for the person who reads them: one line, the place, the way out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Control characters move the cursor or recolour the terminal, bidirectional ones reorder a line, lone surrogates cannot be printed.
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST = 2000  # characters of a message: its beginning and its end, where the way out is
END = 500


def printable(text: str) -> str:
    """The text, cut in the middle if it is long, with its unsafe characters escaped: a message may quote any file."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - END - 1]}…{text[-END:]}"
    return escape_unsafe(text)


def escape_unsafe(text: str) -> str:
    """The text as a terminal may be given it: what files and models wrote could move its cursor, recolour it or reorder its lines."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class AttentifError(Exception):
    """Something a user can mend. The command line prints it as `error: file:line: message`, without a traceback.

    `code` names the kind of error and does not change when its wording does: "bad-row". Programs and tests match it.
    """

    exit_code = 1
    code = "error"
    quiet = False  # True: another process of the same run says it

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None, code: str = "") -> None:
        self.message, self.file, self.line, self.code = printable(message), file, line, code or type(self).code
        self.place = printable("" if file is None else f"{file}: " if line is None else f"{file}:{line}: ")
        super().__init__(self.place + self.message)


class ConfigError(AttentifError):
    """A configuration that cannot be built, refused before any data is read."""

    exit_code = 2
    code = "config"


@contextmanager
def within(path: str) -> Iterator[None]:
    """Contradictions found inside say where in the configuration they stand: `with within("encoder."): ...`"""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(path + error.message, file=error.file, line=error.line, code=error.code) from None


class UsageError(AttentifError):
    """A command that asks for something impossible."""

    exit_code = 2
    code = "usage"


class DataError(AttentifError):
    """A file, a row or a label that cannot be used."""

    code = "data"


@contextmanager
def refuse_damaged(file: str | Path, what: str) -> Iterator[None]:
    """Turn whatever a decoder raises into `DataError`. Decoders of other projects raise nearly anything for a damaged file."""
    try:
        yield
    except AttentifError:
        raise
    except FileNotFoundError:
        raise DataError("no such file", file=file) from None
    except Exception as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = (said.strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"is not a readable {what}: {reason}", file=file) from None


class RunError(AttentifError):
    """A run folder or a checkpoint that cannot be read or written."""

    code = "run"


class NonFiniteError(RunError):
    """A model that answers with NaN or infinity."""

    def __init__(self) -> None:
        super().__init__(
            "the model answers with numbers that are not finite: its weights are damaged, or its training diverged", code="not-finite"
        )
