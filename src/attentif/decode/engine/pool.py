"""Engines that are kept beside their model between texts: to build one takes as long as several steps of a small model.

An engine has buffers of its own, so that two texts at once have two. It points at weights where they lie: one whose weights have moved or
changed, or whose modules got hooks, is built anew.
"""

import weakref
from typing import Any

import torch

from attentif.decode.engine.engine import Engine, find_engine, is_fusible
from attentif.models import Model

STEP = 256  # capacities are rounded up to a multiple, for texts of other lengths to use the same engine
MOST_FREE = 4  # engines kept for a model

_free: "weakref.WeakKeyDictionary[Model, list[tuple[Any, Engine]]]" = weakref.WeakKeyDictionary()


def borrow_engine(owner: object, model: Model, capacity: int, *, one_text: bool = False) -> Engine | None:
    """The engine of a model as of `find_engine`, for as long as its owner lives; then the next can have it."""
    if not is_fusible(model):
        return None
    rounded = -(-capacity // STEP) * STEP
    key = (rounded, one_text, torch.get_num_threads(), _fingerprint(model))
    free = _free.setdefault(model, [])
    engine = None
    for entry in list(free):
        if entry[0] == key and engine is None:
            free.remove(entry)
            engine = entry[1]
    engine = engine or find_engine(model, rounded, one_text=one_text)
    if engine is not None:
        engine.model = model
        weakref.finalize(owner, _give_back, weakref.ref(model), key, engine).atexit = False
    return engine


def _give_back(owner: "weakref.ref[Model]", key: Any, engine: Engine) -> None:
    model = owner()
    if model is None:
        return
    engine.model = None  # or the model would never be let go
    free = _free.setdefault(model, [])
    free.append((key, engine))
    del free[:-MOST_FREE]


def _fingerprint(model: Model) -> int:
    """What an engine was built from: where the weights lie, how often they were changed in place, and who listens to the modules."""
    tensors = [*model.parameters(), *model.buffers()]
    places = tuple((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors)
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    return hash((places, hooks))
