"""What mixers remember between calls. It belongs to the caller: a mixer keeps nothing of its own."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(slots=True)
class State:
    """What one mixer remembers. Subclasses are dataclasses; the first axis of their tensors is the batch."""

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{name: change(value) if isinstance(value, Tensor) else value for name, value in values.items()})

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, in this order: beams are kept, repeated and dropped with it."""
        return self._map(lambda tensor: tensor.index_select(0, rows))

    def snapshot(self) -> Self:
        """A copy that later calls do not touch, to roll back to."""
        return self._map(lambda tensor: tensor.clone())

    def detach(self) -> Self:
        """The same values without their history: truncated back-propagation."""
        return self._map(lambda tensor: tensor.detach())

    def bytes(self) -> int:
        """Memory held, for honest comparisons."""
        return sum(value.nbytes for field in fields(self) if isinstance(value := getattr(self, field.name), Tensor))


@dataclass(slots=True)
class NoState(State):
    """For mixers that look at one token at a time and have nothing to remember."""


class StateTree(dict[str, "State | StateTree"]):
    """The states of a whole stack, keyed by sublayer path: `tree["blocks.0.attn"]`."""

    def below(self, prefix: str) -> "dict[str, State | StateTree]":
        """The states whose path begins so, by the rest of their path."""
        return {path.removeprefix(prefix): state for path, state in self.items() if path.startswith(prefix)}

    def select(self, rows: Tensor) -> Self:
        return type(self)((path, state.select(rows)) for path, state in self.items())

    def snapshot(self) -> Self:
        return type(self)((path, state.snapshot()) for path, state in self.items())

    def detach(self) -> Self:
        return type(self)((path, state.detach()) for path, state in self.items())

    def bytes(self) -> int:
        return sum(state.bytes() for state in self.values())


def alike(one: "State | StateTree", other: "State | StateTree") -> bool:
    """Whether two states are of the same kind and of the same sizes, the batch apart."""
    if isinstance(one, StateTree) or isinstance(other, StateTree):
        if not (isinstance(one, StateTree) and isinstance(other, StateTree)):
            return False
        return one.keys() == other.keys() and all(alike(state, other[path]) for path, state in one.items())
    pairs = [(getattr(one, field.name), getattr(other, field.name, None)) for field in fields(one)]
    same = all(b.shape[1:] == a.shape[1:] if isinstance(a, Tensor) and isinstance(b, Tensor) else type(a) is type(b) for a, b in pairs)
    return type(one) is type(other) and same


def shared_sources(rows: Tensor, fanout: int, sources: int) -> tuple[Tensor | None, int]:
    """Which of the `sources` serve these rows, where `fanout` neighbouring rows shared each, and how many rows share one now.

    Beams of one source share what was worked out from it: choosing among them copies nothing. None: the sources stay as they are.
    """
    chosen, counts = torch.unique_consecutive(rows // fanout, return_counts=True)
    alike = int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else 1
    if alike == 1:
        chosen = rows // fanout
    same = len(chosen) == sources and bool((chosen == torch.arange(sources, device=rows.device)).all())
    return None if same else chosen, alike
