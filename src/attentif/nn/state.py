"""State of mixers between calls; it belongs to the caller."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(slots=True)
class State:
    """State of one mixer. Subclasses are dataclasses of tensors whose first axis is the batch."""

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{name: change(value) if isinstance(value, Tensor) else value for name, value in values.items()})

    def select(self, rows: Tensor) -> Self:
        """Select rows in this order, to keep, repeat or drop beams."""
        return self._map(lambda tensor: tensor.index_select(0, rows))

    def snapshot(self) -> Self:
        """Copy the state, to roll back to."""
        return self._map(lambda tensor: tensor.clone())

    def detach(self) -> Self:
        """Detach from the graph, for truncated back-propagation."""
        return self._map(lambda tensor: tensor.detach())

    def bytes(self) -> int:
        """Memory held."""
        return sum(value.nbytes for field in fields(self) if isinstance(value := getattr(self, field.name), Tensor))


@dataclass(slots=True)
class NoState(State):
    """State of mixers that process tokens independently."""


class StateTree(dict[str, "State | StateTree"]):
    """The states of a whole stack, keyed by sublayer path: `tree["blocks.0.attn"]`."""

    def subtree(self, prefix: str) -> "dict[str, State | StateTree]":
        """Return the states below a path prefix, by the rest of their path."""
        return {path.removeprefix(prefix): state for path, state in self.items() if path.startswith(prefix)}

    def select(self, rows: Tensor) -> Self:
        return type(self)((path, state.select(rows)) for path, state in self.items())

    def snapshot(self) -> Self:
        return type(self)((path, state.snapshot()) for path, state in self.items())

    def detach(self) -> Self:
        return type(self)((path, state.detach()) for path, state in self.items())

    def bytes(self) -> int:
        return sum(state.bytes() for state in self.values())


def join_states(states: "Sequence[State | StateTree]") -> "State | StateTree":
    """Concatenate the rows of states with the same layout."""
    first = states[0]
    if isinstance(first, StateTree):
        return StateTree((path, join_states([state[path] for state in states])) for path in first)  # type: ignore[index]
    values = {field.name: [getattr(state, field.name) for state in states] for field in fields(first)}
    return type(first)(**{name: torch.cat(own) if isinstance(own[0], Tensor) else own[0] for name, own in values.items()})


def same_layout(one: "State | StateTree", other: "State | StateTree") -> bool:
    """Whether two states have the same type and sizes, apart from the batch."""
    if isinstance(one, StateTree) or isinstance(other, StateTree):
        if not (isinstance(one, StateTree) and isinstance(other, StateTree)):
            return False
        return one.keys() == other.keys() and all(same_layout(state, other[path]) for path, state in one.items())
    pairs = [(getattr(one, field.name), getattr(other, field.name, None)) for field in fields(one)]
    same = all(b.shape[1:] == a.shape[1:] if isinstance(a, Tensor) and isinstance(b, Tensor) else type(a) is type(b) for a, b in pairs)
    return type(one) is type(other) and same


def select_sources(rows: Tensor, fanout: int, sources: int) -> tuple[Tensor | None, int]:
    """Select the sources of these rows; return them (None: unchanged) and the new fanout.

    Beams of one source share what was computed from it: choosing among them copies nothing. None: the sources stay as they are.
    """
    chosen, counts = torch.unique_consecutive(rows // fanout, return_counts=True)
    same_layout = int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else 1
    if same_layout == 1:
        chosen = rows // fanout
    same = len(chosen) == sources and bool((chosen == torch.arange(sources, device=rows.device)).all())
    return None if same else chosen, same_layout
