"""Mixers, tasks and data sets of a user's own, without a fork.

A plug-in is a Python file (`attentif --plugin my.py train ...`) or an installed package with an entry point in the group
`attentif.plugins`. Importing it is all that happens: its decorators (`@MIXERS.register`, `@TASKS.register`, ...) do the rest.
"""

import importlib.util
import re
import sys
import traceback
from functools import cache
from pathlib import Path

from attentif.errors import AttentifError, ConfigError

GROUP = "attentif.plugins"
PREFIX = "attentif_plugin_"  # of the modules that users' files become


def load_plugin(path: str | Path) -> None:
    """Import a user's file, once."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError("no such plug-in file", file=file)
    # the same file has the same module name every time: a class registered again is recognised as itself
    name = PREFIX + re.sub(r"\W", "_", str(file.resolve()))
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError("a plug-in is a Python file (.py)", file=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, AttentifError) or not isinstance(error, Exception):
            raise
        raise ConfigError(f"{type(error).__name__}: {error}", file=file, line=_line_in(file, error)) from error


def list_plugins() -> list[Path]:
    """The users' files that were imported so far: another process needs them too."""
    return [Path(str(module.__file__)) for name, module in sys.modules.items() if name.startswith(PREFIX)]


@cache
def load_installed() -> None:
    """Import what installed packages offer under `attentif.plugins`."""
    from importlib.metadata import entry_points  # slow to import

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except AttentifError:
            raise
        except Exception as error:
            package = point.dist.name if point.dist else "?"
            why = f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"plug-in {point.name!r} of the package {package!r} cannot be loaded ({why}); mend or uninstall it"
            ) from error


def _line_in(file: Path, error: Exception) -> int | None:
    """The last line of `file` itself that led to the error."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return lines[-1] if lines else None
