"""What mixers remember between calls. It belongs to the caller: a mixer keeps nothing of its own."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

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
