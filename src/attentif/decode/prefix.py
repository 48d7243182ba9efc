"""States of texts that were read before: a prompt that begins as one of them is read from where they part.

A chat's history or a system prompt is then read once. Keys and values have a place for each token, so any common beginning can be taken
up again; a state of fixed size can only be continued, so its whole text must be the beginning.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch

from attentif.nn.cache import KeyValueState
from attentif.nn.state import NoState, State, StateTree

SHORTEST = 8  # tokens that are read again rather than copied


class PrefixCache:
    """The states of the last `most` texts that were put in."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[tuple[int, ...], StateTree] = OrderedDict()

    def put(self, ids: Sequence[int], state: StateTree) -> None:
        """Keep a state of one row, which has read these tokens. It must not be written to any more."""
        if self.most and len(ids) >= SHORTEST:
            self._kept[tuple(ids)] = state
            self._kept.move_to_end(tuple(ids))
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)

    @torch.no_grad()
    def find(self, ids: Sequence[int], empty: StateTree) -> tuple[StateTree, int]:
        """A state of one's own that has read the first tokens of `ids`, never all of them, and how many; `empty` and 0 where none has."""
        best: tuple[int, ...] | None = None
        longest = SHORTEST - 1
        for known, state in self._kept.items():
            common = min(_common(known, ids), len(ids) - 1)
            if common > longest and (common == len(known) or _by_place(state)):
                best, longest = known, common
        if best is None:
            return empty, 0
        self._kept.move_to_end(best)
        state = self._kept[best]
        if not _by_place(state):
            return state.snapshot(), longest
        _copy_places(empty, state, longest)
        return empty, longest


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _by_place(state: State | StateTree) -> bool:
    if isinstance(state, StateTree):
        return all(_by_place(own) for own in state.values())
    return type(state) in (KeyValueState, NoState)


def _copy_places(target: State | StateTree, source: State | StateTree, places: int) -> None:
    if isinstance(target, StateTree) and isinstance(source, StateTree):
        for path, own in target.items():
            _copy_places(own, source[path], places)
    elif isinstance(target, KeyValueState) and isinstance(source, KeyValueState):
        target.k[:, :, :places] = source.k[:, :, :places]
        target.v[:, :, :places] = source.v[:, :, :places]
