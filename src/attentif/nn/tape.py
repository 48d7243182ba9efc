"""Recording attention maps without changing the computation.

    with record(model, layers=[3]) as tape:
        model(batch)
    tape.maps("encoder.blocks.3.attn", head=0)        # (rows, 1, T, S)

While a tape is open, mixers give it what their weights can be computed from later (rotated queries, keys, masks, scale); the fast kernel
runs unchanged.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from attentif.nn.mixer import Recordable

_open: ContextVar["Tape | None"] = ContextVar("tape", default=None)


class Tape:
    """Records of the chosen mixers by sublayer path, one per call."""

    def __init__(self, mixers: dict[str, Recordable]) -> None:
        self.mixers = mixers
        self.paths = {id(mixer): path for path, mixer in mixers.items()}
        self.records: dict[str, list[Any]] = {}

    def keep(self, mixer: nn.Module, record: Any) -> None:
        if (path := self.paths.get(id(mixer))) is not None:
            self.records.setdefault(path, []).append(record)

    def wants(self, mixer: nn.Module) -> bool:
        return id(mixer) in self.paths

    def __iter__(self) -> Iterator[str]:
        """Paths of the mixers that left a record and can show it."""
        return (path for path in self.records if self.mixers[path].caps.maps)

    @torch.no_grad()
    def maps(self, path: str, head: int | None = None, rows: Tensor | None = None, call: int = -1) -> Tensor:
        """Compute the attention weights (rows, heads, T, S) of one mixer in one call, by default the last."""
        if path not in self.records:
            raise KeyError(f"nothing was recorded at {path!r}; recorded: {', '.join(self.records) or 'nothing'}")
        return self.mixers[path].maps(self.records[path][call], head, rows)


def sublayer_path(name: str) -> str:
    """Return a mixer's path, as in a StateTree, from its module name."""
    return name.replace(".mixer.branches.", ".").removesuffix(".mixer")


@contextmanager
def record(model: nn.Module, layers: Collection[int] | None = None) -> Iterator[Tape]:
    """Record the mixers of `model` and an attending head; `layers` limits the block numbers."""
    mixers: dict[str, Recordable] = {}
    for name, module in model.named_modules():
        if isinstance(module, Recordable):
            path = sublayer_path(name)
            block = re.search(r"(?:^|\.)blocks\.(\d+)\.", path + ".")
            if layers is None or (block is not None and int(block[1]) in layers):
                mixers[path] = module
    tape = Tape(mixers)
    token = _open.set(tape)
    try:
        yield tape
    finally:
        _open.reset(token)


@contextmanager
def pause_recording() -> Iterator[None]:
    """Record nothing inside: a recomputed call must not be recorded twice."""
    token = _open.set(None)
    try:
        yield
    finally:
        _open.reset(token)


def is_recording() -> bool:
    """Whether a tape is open."""
    return _open.get() is not None


def tape_for(mixer: nn.Module) -> Tape | None:
    """Return the open tape if it records this mixer."""
    tape = _open.get()
    return tape if tape is not None and tape.wants(mixer) else None
