"""Looking never changes the computation.

    with record(model, layers=[3]) as tape:
        model(batch)
    tape.maps("encoder.blocks.3.attn", head=0)        # (rows, 1, T, S)

While a tape is open, mixers hand it what their weights can be worked out from later (queries after rotation, keys, masks, scale); the
fast kernel runs as always, on the same tensors.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from attentif.nn.mixer import Shown

_open: ContextVar["Tape | None"] = ContextVar("tape", default=None)


class Tape:
    """What the chosen mixers kept, by sublayer path, one record a call."""

    def __init__(self, mixers: dict[str, Shown]) -> None:
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
        """Attention weights (rows, heads, T, S) of one mixer in one call, the last by default."""
        if path not in self.records:
            raise KeyError(f"nothing was recorded at {path!r}; recorded: {', '.join(self.records) or 'nothing'}")
        return self.mixers[path].maps(self.records[path][call], head, rows)


def sublayer_path(name: str) -> str:
    """The path of a mixer, as in a StateTree, from its name as a module."""
    return name.replace(".mixer.branches.", ".").removesuffix(".mixer")


@contextmanager
def record(model: nn.Module, layers: Collection[int] | None = None) -> Iterator[Tape]:
    """Record the mixers of `model`, and its head where that attends; `layers` keeps to these block numbers (of every stack)."""
    mixers: dict[str, Shown] = {}
    for name, module in model.named_modules():
        if isinstance(module, Shown):
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
def paused() -> Iterator[None]:
    """No recording inside: what is computed a second time in a backward pass is not seen twice."""
    token = _open.set(None)
    try:
        yield
    finally:
        _open.reset(token)


def tape_for(mixer: nn.Module) -> Tape | None:
    """The open tape, if it wants this mixer."""
    tape = _open.get()
    return tape if tape is not None and tape.wants(mixer) else None
