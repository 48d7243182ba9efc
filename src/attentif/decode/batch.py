"""Rows that join and leave between steps: what a scheduler of continuous batching is built on.

    batch = DecodingBatch(model, capacity=2048)
    row = batch.add(ids)                        # registers the prompt; nothing is read yet
    while (logits := batch.prefill(row, 256)) is None:
        ...                                     # other rows may take steps between the chunks of a long prompt
    logits = batch.step({row: token, other: token_of_other})[row]           # one more token of each of these rows
    twin = batch.fork(row)                      # another continuation of what this row has read
    batch.remove(row)

A row is a number that is never given out twice. `step` reads one token of each row it is given, whatever their lengths, and
leaves the others as they are; rows do not see each other, so a row's logits are the same in any company, up to rounding. Nothing here
is safe to call from two threads at once: one thread owns a batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.decode.engine.engine import MOST_ROWS
from attentif.decode.prefix import PrefixCache
from attentif.decode.session import Stepper, check_prompts, refuse_nan
from attentif.errors import UsageError
from attentif.models import Input, Model
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree, join_states, same_layout


@dataclass(slots=True)
class _Row:
    state: StateTree | None  # of one row; None while the row stands in the joined state
    ids: list[int]  # tokens read so far
    prompt: list[int]  # what is still to be read of the prompt
    has_source: bool = False

    @property
    def read(self) -> int:
        return len(self.ids)


class DecodingBatch:
    """Sequences decoded together; puts the model in eval mode.

    capacity   most tokens of one of them, its prompt included
    prefixes   texts of removed rows that are kept, for prompts that begin alike
    """

    def __init__(self, model: Model, capacity: int, *, prefixes: int = 4) -> None:
        limit = model.caps.max_len
        self.model = model.eval()
        self.capacity = capacity if limit is None else min(capacity, limit)
        self.device = next(model.parameters()).device
        self._rows: dict[int, _Row] = {}
        self._next = 0
        self._prefixes = PrefixCache(prefixes)
        self._stepper = Stepper(self.model, self.capacity)
        self._joined: tuple[list[int], StateTree] | None = None  # rows of the last step, and the state they share

    def __len__(self) -> int:
        return len(self._rows)

    @torch.no_grad()
    def add(self, ids: Sequence[int], source: Input | None = None) -> int:
        """Register a prompt, with its source for an encoder-decoder, and return its row. `prefill` reads it."""
        check_prompts(self.model, [ids], source)
        if len(ids) > self.capacity:
            raise UsageError(f"the prompt has {len(ids)} tokens, and a row of this batch holds {self.capacity}: shorten it")
        memory = (None, None) if source is None else self.model.encode(source.to(self.device))
        state, known = self.model.init_state(1, self.capacity, *memory), 0
        if source is None:
            state, known = self._prefixes.find(ids, state)
        return self._insert(_Row(state, list(ids[:known]), list(ids[known:]), source is not None))

    @torch.no_grad()
    def prefill(self, row: int, tokens: int | None = None) -> Tensor | None:
        """Read at most `tokens` more of the row's prompt; the logits (V,) of its next token once all is read, None before."""
        own = self._rows[row]
        if not own.prompt:
            raise UsageError(f"the prompt of row {row} has been read")
        chunk, own.prompt = own.prompt[:tokens], own.prompt[tokens:] if tokens else []
        seq = Seq.from_padded(torch.tensor([len(chunk)], device=self.device), start=own.read)
        x, _ = self.model.decode(Input(torch.tensor([chunk], device=self.device), seq), state=own.state)
        own.ids += chunk
        return None if own.prompt else refuse_nan(self.model.head(x[:, -1:], seq)[0])[0]

    @torch.no_grad()
    def step(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        """Read one more token of each of these rows; the logits (V,) of what follows it, by row."""
        for row in tokens:
            if self._rows[row].prompt:
                raise UsageError(f"row {row} takes no step before its prompt is read: call prefill until it gives logits")
            if self._rows[row].read >= self.capacity:
                raise UsageError(f"row {row} holds {self.capacity} tokens, which is all it can: remove it")
        rows = list(tokens)
        found: dict[int, Tensor] = {}
        for some in self._group(rows):
            start = torch.tensor([self._rows[row].read for row in some], device=self.device)
            seq = Seq.from_padded(torch.ones_like(start), 1, start)
            logits = self._stepper.step(torch.tensor([tokens[row] for row in some], device=self.device), seq, self._states(some))
            found |= zip(some, refuse_nan(logits), strict=True)
        for row in rows:
            self._rows[row].ids.append(tokens[row])
        return found

    def fork(self, row: int) -> int:
        """A new row that has read what this one has; both go on apart."""
        self._split()
        own = self._rows[row]
        assert own.state is not None
        return self._insert(_Row(own.state.snapshot(), list(own.ids), list(own.prompt), own.has_source))

    def remove(self, row: int) -> None:
        """Forget a row. What it has read is kept for prompts that begin the same, as long as it is among the newest `prefixes`."""
        self._split()
        own = self._rows.pop(row)
        if own.state is not None and not own.has_source:
            self._prefixes.put(own.ids, own.state)

    def length(self, row: int) -> int:
        """Tokens that a row has read."""
        return self._rows[row].read

    def _insert(self, row: _Row) -> int:
        number, self._next = self._next, self._next + 1
        self._rows[number] = row
        return number

    def _group(self, rows: list[int]) -> list[list[int]]:
        """Rows of one step: as many as the engine takes, or those whose states can be joined (of sources of one length, for instance)."""
        if self._stepper.engine is not None:
            return [rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)]
        if self._joined is not None and self._joined[0] == rows:
            return [rows]
        self._split()
        groups: list[list[int]] = []
        for row in rows:
            state = self._rows[row].state
            assert state is not None
            for group in groups:
                other = self._rows[group[0]].state
                if other is not None and same_layout(state, other):
                    group.append(row)
                    break
            else:
                groups.append([row])
        return groups

    def _states(self, rows: list[int]) -> list[StateTree]:
        if self._stepper.engine is None:
            return [self._join(rows)]
        return [state for row in rows if (state := self._rows[row].state) is not None]

    def _join(self, rows: list[int]) -> StateTree:
        if self._joined is not None and self._joined[0] == rows:
            return self._joined[1]
        states = [self._rows[row].state for row in rows]
        if len(states) == 1:
            assert states[0] is not None
            return states[0]
        self._split()
        joined = join_states([state for state in states if state is not None])
        assert isinstance(joined, StateTree)
        self._joined = (rows, joined)
        for row in rows:
            self._rows[row].state = None
        return joined

    def _split(self) -> None:
        """Give the rows of the joined state their own ones back."""
        if self._joined is not None:
            rows, state = self._joined
            for place, row in enumerate(rows):
                self._rows[row].state = state.select(torch.tensor([place], device=self.device))
            self._joined = None
