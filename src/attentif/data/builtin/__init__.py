"""The data sets that come with the project: nothing to download, the same rows for the same seed on every machine.

Most are written by the project itself (synthetic, and said to be); others are what every Python or a library brings along. A set is a
module of this package that calls its `BuiltIn` SET.
"""

import pkgutil
from importlib import import_module

from attentif.data.builtin.registry import BuiltIn, Columns, Splits

__all__ = ["BUILTIN", "BuiltIn", "Columns", "Splits"]

_modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
BUILTIN: dict[str, BuiltIn] = {module.SET.name: module.SET for module in _modules if hasattr(module, "SET")}
