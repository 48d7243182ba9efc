"""Rows that are written side by side and join and leave between steps.

    reading = rows.begin(ids)          a prompt,
    rows.read([reading, ...], 128)     read in chunks, short ones together
    rows.join(reading)                 the last row
    logits = rows.step([token, ...])   one more token of every row
    rows.keep([0, 2])                  the others leave

A row's scores depend on its own tokens alone. `StateRows` joins the states of a neural decoder; `SessionRows` serves whatever else
gives scores of a next token (n-grams).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from attentif.decode.engine.engine import MOST_ROWS
from attentif.decode.session import Stepper, Writing
from attentif.models import Input, Model
from attentif.nn.cache import KeyValueState
from attentif.nn.seq import Seq
from attentif.nn.state import NoState, State, StateTree

SMALLEST = 128  # tokens that a state is made for at least
SHORTEST_PREFIX = 16  # tokens worth caching
SHORT = 256  # tokens of a state that is worth copying to read its prompt together with others
States = TypeVar("States", State, StateTree)


class PromptReader(Protocol):
    """A prompt on its way in."""

    @property
    def left(self) -> int:
        """Tokens that are still to be read."""
        ...

    @property
    def logits(self) -> Tensor:
        """(V,): scores of the first new token, once everything is read."""
        ...


class RowBatch(Protocol):
    def begin(self, ids: Sequence[int]) -> PromptReader: ...

    def can_share(self, earlier: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether the state after an `earlier` prompt spares half of reading `ids`, or more."""
        ...

    def read(self, readers: Sequence[PromptReader], count: int) -> None:
        """Read so many tokens of each prompt, or what is left of it."""
        ...

    def join(self, reading: PromptReader) -> None: ...

    def step(self, tokens: Sequence[int]) -> Tensor:
        """(B, V): scores after one more token of every row."""
        ...

    def keep(self, rows: Sequence[int]) -> None: ...


# -------------------------------------------------------------------------------------------------------- neural models


@dataclass(slots=True)
class Prefix:
    """The state after some tokens, made for no more than these."""

    ids: tuple[int, ...]
    state: StateTree
    logits: Tensor

    @property
    def bytes(self) -> int:
        return self.state.bytes() + self.logits.nbytes


class PromptCache:
    """The states of recent prompts, within so many bytes; the least recently used is dropped."""

    def __init__(self, budget: int) -> None:
        self.budget, self.bytes, self.found_tokens = budget, 0, 0
        self.entries: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self.beginnings: dict[tuple[int, ...], dict[tuple[int, ...], Prefix]] = {}  # the entries by their first tokens

    def find(self, ids: tuple[int, ...], partly: bool) -> tuple[Prefix, int] | None:
        """The entry that shares the longest beginning, and how long that is; `partly` allows a part of an entry."""
        best, length = None, SHORTEST_PREFIX - 1
        for entry in self.beginnings.get(ids[:SHORTEST_PREFIX], {}).values():
            common = common_length(entry.ids, ids)
            if common > length and (common == len(entry.ids) or partly):
                best, length = entry, common
        if best is None:
            return None
        self.entries.move_to_end(best.ids)
        if length == len(ids) and length < len(best.ids):  # the last token is read again, for its scores
            length -= 1
        self.found_tokens += length
        return best, length

    def add(self, entry: Prefix) -> None:
        if len(entry.ids) < SHORTEST_PREFIX or entry.bytes > self.budget // 4:
            return
        if entry.ids in self.entries:
            self._remove(entry.ids)
        self.entries[entry.ids] = entry
        self.beginnings.setdefault(entry.ids[:SHORTEST_PREFIX], {})[entry.ids] = entry
        self.bytes += entry.bytes
        while self.bytes > self.budget:
            self._remove(next(iter(self.entries)))

    def _remove(self, ids: tuple[int, ...]) -> None:
        self.bytes -= self.entries.pop(ids).bytes
        alike = self.beginnings[ids[:SHORTEST_PREFIX]]
        del alike[ids]
        if not alike:
            del self.beginnings[ids[:SHORTEST_PREFIX]]


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens two texts share."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class StateReading:
    def __init__(self, rows: "StateRows", ids: Sequence[int]) -> None:
        self.rows, self.ids = rows, tuple(ids)
        self.done = 0
        self.capacity = capacity_for(len(ids) + 1, rows.limit)
        self._logits: Tensor | None = None
        if known := rows.cache.find(self.ids, rows.partly):
            entry, self.done = known
            self.state = resize(rows.model, entry.state, 1, self.capacity)
            self._logits = entry.logits if self.done == len(self.ids) else None
        else:
            self.state = rows.model.init_state(1, self.capacity)

    @property
    def left(self) -> int:
        return len(self.ids) - self.done

    @property
    def logits(self) -> Tensor:
        assert self._logits is not None
        return self._logits

    def finish(self, last: Tensor) -> None:
        """Keep the scores after the last token (1, D), and the state for prompts that begin alike."""
        model, device = self.rows.model, last.device
        place = Seq.from_padded(torch.ones(1, dtype=torch.long, device=device), 1, self.done - 1)
        self._logits = model.head(last[None], place)[0, 0].float()
        if len(self.ids) >= SHORTEST_PREFIX:
            self.rows.cache.add(Prefix(self.ids, resize(model, self.state, 1, len(self.ids)), self._logits))


class StateRows:
    """Rows of a decoder. A fused step reads the state of each row where it lies; `forward` wants them in one."""

    def __init__(self, model: Model, limit: int, cache: PromptCache) -> None:
        self.model, self.limit, self.cache = model, limit, cache
        self.device = next(model.parameters()).device
        self.stepper = Stepper(model, limit)
        self.apart = self.stepper.engine is not None
        self.states: list[StateTree] = []  # of each row where they are apart, else one of all
        self.capacity = 0  # of every state
        self.lengths: list[int] = []  # tokens read of each row
        self.partly = all(isinstance(state, KeyValueState | NoState) for state in leaves(model.init_state(1, 1)))

    def begin(self, ids: Sequence[int]) -> StateReading:
        return StateReading(self, ids)

    def can_share(self, earlier: Sequence[int], ids: Sequence[int]) -> bool:
        common = common_length(earlier, ids)
        return common >= max(SHORTEST_PREFIX, len(ids) // 2) and (self.partly or common == len(earlier))

    def read(self, readers: Sequence[PromptReader], count: int) -> None:
        """Read chunks of prompts; short prompts in one pass: a product of few rows takes nearly as long as one of many."""
        left = [one for one in readers if isinstance(one, StateReading) and one.left]
        short = [one for one in left if one.capacity <= SHORT]
        for group in ([short] if short else []) + [[one] for one in left if one.capacity > SHORT]:
            self._read(group, count)

    def _read(self, group: Sequence[StateReading], count: int) -> None:
        chunks = [one.ids[one.done : one.done + count] for one in group]
        lengths = torch.tensor([len(chunk) for chunk in chunks], device=self.device)
        width = max(map(len, chunks))
        data = torch.tensor([(*chunk, *[0] * (width - len(chunk))) for chunk in chunks], device=self.device)
        if len(group) == 1:
            state, start = group[0].state, group[0].done
            x, _ = self.model.decode(Input(data, Seq.from_padded(lengths, width, start)), state=state)
        else:
            starts = torch.tensor([one.done for one in group], device=self.device)
            capacity = max(one.capacity for one in group)
            state = reduce(concatenate, (resize(self.model, one.state, 1, capacity) for one in group))
            x, _ = self.model.decode(Input(data, Seq.from_padded(lengths, width, starts)), state=state)
            for row, one in enumerate(group):
                one.state, one.capacity = state.select(torch.tensor([row], device=self.device)), capacity
        for row, (one, chunk) in enumerate(zip(group, chunks, strict=True)):
            one.done += len(chunk)
            if not one.left:
                one.finish(x[row, len(chunk) - 1 : len(chunk)])

    def join(self, reading: PromptReader) -> None:
        assert isinstance(reading, StateReading)
        self._grow(max(self.capacity, reading.capacity))
        state = reading.state if reading.capacity == self.capacity else resize(self.model, reading.state, 1, self.capacity)
        if self.states and not self.apart:
            self.states = [concatenate(self.states[0], state)]
        else:
            self.states.append(state)
        self.lengths.append(len(reading.ids))

    def _grow(self, capacity: int) -> None:
        if capacity == self.capacity:
            return
        rows = 1 if self.apart else len(self.lengths)
        self.states, self.capacity = [resize(self.model, state, rows, capacity) for state in self.states], capacity

    def step(self, tokens: Sequence[int]) -> Tensor:
        needed = max(self.lengths) + 1
        if needed > self.capacity:
            self._grow(capacity_for(needed, self.limit))
        size = MOST_ROWS if self.apart else len(tokens)
        parts = [self._step(slice(start, start + size), tokens[start : start + size]) for start in range(0, len(tokens), size)]
        self.lengths = [length + 1 for length in self.lengths]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _step(self, rows: slice, tokens: Sequence[int]) -> Tensor:
        places = torch.tensor(self.lengths[rows], device=self.device)
        seq = Seq.from_padded(torch.ones_like(places), 1, places)
        return self.stepper.step(torch.tensor(tokens, device=self.device), seq, self.states[rows] if self.apart else self.states).float()

    def keep(self, rows: Sequence[int]) -> None:
        if len(rows) == len(self.lengths):
            return
        self.lengths = [self.lengths[row] for row in rows]
        if not rows:
            self.states, self.capacity = [], 0
        elif self.apart:
            self.states = [self.states[row] for row in rows]
        else:
            self.states = [self.states[0].select(torch.tensor(rows, device=self.device))]


def capacity_for(tokens: int, limit: int) -> int:
    """Room for these tokens and as many more, within the limit: a row that grows is seldom copied."""
    return min(max(SMALLEST, 1 << tokens.bit_length()), max(limit, tokens))


def leaves(tree: StateTree) -> Iterator[State]:
    for state in tree.values():
        yield from leaves(state) if isinstance(state, StateTree) else (state,)


def resize(model: Model, state: StateTree, rows: int, capacity: int) -> StateTree:
    """A copy of a state, made for another number of tokens: every place keeps what it holds."""
    return combine(model.init_state(rows, capacity), state, _copy_overlap)


def _copy_overlap(new: Tensor, old: Tensor) -> Tensor:
    if new.shape == old.shape:
        return old.clone()
    shared = tuple(slice(0, min(sizes)) for sizes in zip(new.shape, old.shape, strict=True))
    new[shared] = old[shared]
    return new


def concatenate(one: StateTree, other: StateTree) -> StateTree:
    """The rows of two states of the same capacity, one after the other."""
    return combine(one, other, lambda a, b: torch.cat([a, b]))


def combine(one: StateTree, other: StateTree, join: Callable[[Tensor, Tensor], Tensor]) -> StateTree:
    """Each tensor of two states of the same kind, joined; what is no tensor is the first one's."""
    found = StateTree()
    for path, state in one.items():
        beside = other[path]
        if isinstance(state, StateTree):
            assert isinstance(beside, StateTree)
            found[path] = combine(state, beside, join)
        else:
            assert isinstance(beside, State)
            found[path] = _combine(state, beside, join)
    return found


def _combine(one: State, other: State, join: Callable[[Tensor, Tensor], Tensor]) -> State:
    pairs = {field.name: (getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}
    return replace(one, **{name: join(a, b) for name, (a, b) in pairs.items() if isinstance(a, Tensor) and isinstance(b, Tensor)})


# --------------------------------------------------------------------------------------------------------- other writers


class SessionReading:
    def __init__(self, session: Writing) -> None:
        self.session = session
        self.left = 0

    @property
    def logits(self) -> Tensor:
        return self.session.logits[0].float()


class SessionRows:
    """Rows that have nothing in common: each one a session of its own."""

    def __init__(self, start: Callable[[Sequence[int]], Writing]) -> None:
        self.start = start
        self.sessions: list[Writing] = []

    def begin(self, ids: Sequence[int]) -> SessionReading:
        return SessionReading(self.start(ids))

    def can_share(self, earlier: Sequence[int], ids: Sequence[int]) -> bool:
        return False

    def read(self, readers: Sequence[PromptReader], count: int) -> None:
        """Sessions have read their prompts."""

    def join(self, reading: PromptReader) -> None:
        assert isinstance(reading, SessionReading)
        self.sessions.append(reading.session)

    def step(self, tokens: Sequence[int]) -> Tensor:
        for session, token in zip(self.sessions, tokens, strict=True):
            session.read(torch.tensor([token]))
        return torch.stack([session.logits[0].float() for session in self.sessions])

    def keep(self, rows: Sequence[int]) -> None:
        self.sessions = [self.sessions[row] for row in rows]
