"""The experiments, by name: L1, L2, ... Each is a module here that calls its own EXPERIMENT; being here is enough to be found."""

import pkgutil
from importlib import import_module

from attentif.lab.experiment import Experiment

_modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
_found: list[Experiment] = [module.EXPERIMENT for module in _modules if hasattr(module, "EXPERIMENT")]
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in sorted(_found, key=lambda one: one.number)}
if len(EXPERIMENTS) < len(_found):
    twice = next(one.name for one in _found if EXPERIMENTS[one.name] is not one)
    raise ImportError(f"there are two experiments {twice}")
