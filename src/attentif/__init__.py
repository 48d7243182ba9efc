"""Attentif: every sequence model of the transformer family as a page of TOML.

    import attentif

    run = attentif.train("reviews", data="avis.csv")
    run = attentif.load("runs/reviews-1")
    run.predict(["Quel film !"])

The names below are imported when they are first used: `import attentif` alone does not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from attentif.errors import AttentifError, ConfigError, DataError, RunError, UsageError
from attentif.version import __version__

if TYPE_CHECKING:
    from attentif.api import Maps, Run, load, record, train
    from attentif.lab.compare.comparison import Comparison, compare
    from attentif.lab.profile import Profile, profile
    from attentif.lab.tune import tune

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
    "tune",
]

_FROM_API = ("Maps", "Run", "load", "record", "train")
_FROM_LAB = {
    "Comparison": "attentif.lab.compare.comparison",
    "Profile": "attentif.lab.profile",
    "compare": "attentif.lab.compare.comparison",
    "profile": "attentif.lab.profile",
    "tune": "attentif.lab.tune",
}


def __getattr__(name: str) -> Any:
    if name in _FROM_API:
        return getattr(importlib.import_module("attentif.api"), name)
    if name in _FROM_LAB:
        return getattr(importlib.import_module(_FROM_LAB[name]), name)
    raise AttributeError(f"module 'attentif' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
