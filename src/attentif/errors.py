"""Errors written for the person who reads them: one line, the place, the way out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AttentifError(Exception):
    """Something a user can mend. The command line prints it as `error: file:line: message`, without a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None) -> None:
        self.message, self.file, self.line = message, file, line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + message)


class ConfigError(AttentifError):
    """A configuration that cannot be built, refused before any data is read."""

    exit_code = 2


@contextmanager
def within(path: str) -> Iterator[None]:
    """Contradictions found inside say where in the configuration they stand: `with within("encoder."): ...`"""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(path + error.message, file=error.file, line=error.line) from None


class UsageError(AttentifError):
    """A command that asks for something impossible."""

    exit_code = 2


class DataError(AttentifError):
    """A file, a row or a label that cannot be used."""


class RunError(AttentifError):
    """A run folder or a checkpoint that cannot be read or written."""


class NonFiniteError(RunError):
    """A model that answers with NaN or infinity."""

    def __init__(self) -> None:
        super().__init__("the model answers with numbers that are not finite: its weights are damaged, or its training diverged")
