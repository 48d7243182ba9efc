"""Attentif: every sequence model of the transformer family as a page of TOML.

    import attentif

    run = attentif.train("reviews", data="avis.csv")
    run = attentif.load("runs/reviews-1")
    run.predict(["Quel film !"])

The names below are imported when they are first used: `import attentif` alone does not wait for torch.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attentif.errors import AttentifError, ConfigError, DataError, RunError, UsageError
from attentif.version import __version__

if "OMP_WAIT_POLICY" not in os.environ:
    # After each of torch's parallel operations its threads spin for milliseconds, on the very cores that the threads of our kernels need,
    # or those of another program: a Mamba layer took 1.5 times as long, and five times on a busy machine. GNU's OpenMP reads this once,
    # when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from attentif.api import Maps, Run, load, record, train
    from attentif.lab.compare.comparison import Comparison, compare
    from attentif.lab.profile import Profile, profile

__all__ = [
    "AttentifError",
    "Comparison",
    "ConfigError",
    "DataError",
    "Maps",
    "Profile",
    "Run",
    "RunError",
    "UsageError",
    "__version__",
    "compare",
    "load",
    "profile",
    "record",
    "train",
]

_FROM_API = ("Maps", "Run", "load", "record", "train")
_FROM_LAB = {
    "Comparison": "attentif.lab.compare.comparison",
    "Profile": "attentif.lab.profile",
    "compare": "attentif.lab.compare.comparison",
    "profile": "attentif.lab.profile",
}


def __getattr__(name: str) -> Any:
    if name in _FROM_API:
        return getattr(importlib.import_module("attentif.api"), name)
    if name in _FROM_LAB:
        return getattr(importlib.import_module(_FROM_LAB[name]), name)
    raise AttributeError(f"module 'attentif' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Trainer(ModuleType):
    """The package `attentif.train`, which can be called as the function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from attentif.api import train

        return train(*arguments, **options)


class _Attentif(ModuleType):
    """Importing any part of `attentif.train` sets the package as an attribute here, in place of the function: it is made callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "train" and isinstance(value, ModuleType):
            value.__class__ = _Trainer
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Attentif
