"""A model in the middle of a text: the prompts are read, a state is kept, one more token of every row is read at a time."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from attentif.decode.engine.engine import MOST_ROWS, Engine
from attentif.decode.engine.pool import borrow_engine
from attentif.errors import NonFiniteError, UsageError
from attentif.models import Input, Model
from attentif.models.heads import LanguageHead
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree
from attentif.nn.tape import is_recording

if TYPE_CHECKING:  # it imports numba
    from attentif.decode.engine.runner import Binding

CHUNK = 2048  # tokens of a prompt that are read at once
FEW = 32  # tokens of a prompt up to which fused steps read it sooner than `forward`


class Writing(Protocol):
    """What can be written from: scores of the next token, read on token by token. A neural model's is a `Session`."""

    logits: Tensor  # (B, V)
    limit: int | None
    device: torch.device

    def read(self, tokens: Tensor) -> None: ...

    def extend(self, tokens: Sequence[int]) -> None: ...

    def select(self, rows: Sequence[int]) -> None: ...


class Session:
    """Rows of different lengths side by side. `logits` (B, V) are the scores of each row's next token."""

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], max_tokens: int, source: Input | None = None) -> None:
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        self.model = model
        self.limit = model.caps.max_len  # tokens that a row may have in all
        self.device = next(model.parameters()).device
        memory = (None, None) if source is None else model.encode(source.to(self.device))
        capacity = longest + max_tokens if self.limit is None else min(longest + max_tokens, self.limit)
        self.state = model.init_state(len(prompts), capacity, *memory)
        ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=self.device)
        seq = Seq.from_padded(torch.tensor(lengths, device=self.device), longest)
        if len(prompts) == 1 and longest > CHUNK:  # a long prompt's activations would take more memory than its state
            begin = self._read_but_last_chunk(ids)
            ids, seq = ids[:, begin:], Seq.from_padded(torch.tensor([longest - begin], device=self.device), start=begin)
        self.stepper = Stepper(model, capacity)
        self._bindings: dict[int, Binding] = {}  # of so many tokens that are verified
        self.logits: Tensor
        if (
            len(prompts) == 1
            and longest <= FEW
            and not torch.is_grad_enabled()
            and not is_recording()
            and self.stepper.drafting is not None
        ):
            self._read_few(prompts[0])
            return
        x, _ = model.decode(Input(ids, seq), state=self.state)
        self.upcoming = seq.next_step()
        self.logits = refuse_nan(model.head(x.flatten(0, 1)[seq.last(), None], self.upcoming)[:, 0])

    def _read_few(self, prompt: Sequence[int]) -> None:
        """Read a short prompt by fused steps of several tokens: they take less time than the layers of `forward` one by one."""
        for begin in range(0, len(prompt), MOST_ROWS):
            self.go_to(begin)
            self.logits = self.verify(prompt[begin : begin + MOST_ROWS])[-1:]
        self.go_to(len(prompt))

    def _read_but_last_chunk(self, ids: Tensor) -> int:
        """Read a long prompt in chunks; where the last of them begins, which is still to be read."""
        begin = 0
        while ids.shape[1] - begin > CHUNK:
            seq = Seq.from_padded(torch.tensor([CHUNK], device=self.device), start=begin)
            self.model.decode(Input(ids[:, begin : begin + CHUNK], seq), state=self.state)
            begin += CHUNK
        return begin

    def read(self, tokens: Tensor) -> None:
        """One more token (B,) of every row."""
        seq, self.upcoming = self.upcoming, self.upcoming.next_step()
        self.logits = refuse_nan(self.stepper.step(tokens, seq, [self.state]))

    def extend(self, tokens: Sequence[int]) -> None:
        """Several more tokens of the only row, read at once."""
        assert self.upcoming.start is not None
        seq = Seq.from_padded(torch.tensor([len(tokens)], device=self.device), start=int(self.upcoming.start[0]))
        x, _ = self.model.decode(Input(torch.tensor([tokens], device=self.device), seq), state=self.state)
        self.upcoming = seq.next_step()
        self.logits = refuse_nan(self.model.head(x[:, -1:], self.upcoming)[:, 0])
        self.stepper.forget()
        self._bindings = {}

    def verify(self, tokens: Sequence[int]) -> Tensor:
        """The logits (T, V) behind each of these tokens of the only row, read at once; they are not yet part of its text: see `go_to`."""
        engine = self.stepper.drafting
        assert engine is not None
        ids = torch.tensor(tokens, device=self.device)
        begin = 0 if self.upcoming.start is None else int(self.upcoming.start[0])
        seq = Seq.from_padded(torch.ones_like(ids), 1, begin + torch.arange(len(ids), device=self.device))
        if len(tokens) not in self._bindings:
            self._bindings[len(tokens)] = engine.bind([self.state], len(tokens))
        return refuse_nan(engine.step(ids, seq, self._bindings[len(tokens)]))

    def go_to(self, place: int) -> None:
        """Go on at this place of the only row: what stands there in the state, or behind it, is read anew."""
        self.upcoming = Seq.from_padded(torch.tensor([1], device=self.device), 1, torch.tensor([place], device=self.device))

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order; a row may be taken several times."""
        if list(rows) == list(range(len(self.logits))):
            return
        index = torch.tensor(rows, device=self.device)
        self.state = self.state.select(index)
        self.logits = self.logits[index]
        assert self.upcoming.start is not None  # a prompt was read
        self.upcoming = Seq.from_padded(torch.ones_like(index), 1, self.upcoming.start[index])


class Stepper:
    """Decoding steps of a model: fused where its engine has all it takes, by `forward` elsewhere. The engine is built at the first step."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model, self.capacity = model, capacity
        self._engine: Engine | None = None
        self._drafting: Engine | None = None
        self._sought, self._sought_drafting = False, False
        self._binding: tuple[list[StateTree], Binding] | None = None

    @property
    def engine(self) -> Engine | None:
        """The fused step; None where this model has none."""
        if not self._sought:
            self._engine, self._sought = borrow_engine(self, self.model, self.capacity), True
        return self._engine

    @property
    def drafting(self) -> Engine | None:
        """The fused step of several tokens of one text; None where this model has none."""
        if not self._sought_drafting:
            self._drafting, self._sought_drafting = borrow_engine(self, self.model, self.capacity, one_text=True), True
        return self._drafting

    def forget(self) -> None:
        """Look up states anew: `forward` has read with them, and may have replaced what they hold."""
        self._binding = None

    def step(self, tokens: Tensor, seq: Seq, states: list[StateTree]) -> Tensor:
        """Read a token (R,) of each row; the logits (R, V) of what follows. Each state holds some of the rows, in order."""
        if len(tokens) <= MOST_ROWS and not torch.is_grad_enabled() and not is_recording() and (engine := self.engine) is not None:
            if self._binding is None or any(a is not b for a, b in zip_longest(self._binding[0], states)):
                self._binding = (list(states), engine.bind(states))
            return engine.step(tokens, seq, self._binding[1])
        self.forget()
        (state,) = states
        x, _ = self.model.decode(Input(tokens[:, None], seq), state=state)
        logits: Tensor = self.model.head(x, seq)[:, 0]
        return logits


def refuse_nan(logits: Tensor) -> Tensor:
    # the largest of numbers with a NaN is NaN; no second tensor of this size is made, and numpy's calls cost less than torch's
    peak = logits.detach().numpy().max() if logits.is_cpu and logits.dtype is torch.float32 else logits.amax()
    if peak != peak:
        raise NonFiniteError
    return logits


def check_prompts(model: Model, prompts: Sequence[Sequence[int]], source: Input | None) -> None:
    """Refuse what this model cannot go on with."""
    if model.decoder is None or not isinstance(model.head, LanguageHead):
        raise UsageError("this model reads texts and writes none: generation needs a decoder with a language head")
    if model.caps.streaming == "none":
        raise UsageError("this model looks at both sides of every token, so it cannot write one after the other")
    if (model.encoder is not None) != (source is not None):
        raise UsageError("an encoder-decoder writes from a source" if source is None else "this model has no encoder to read a source")
    if source is not None and source.seq.batch != len(prompts):
        raise UsageError(f"{source.seq.batch} sources for {len(prompts)} prompts: each prompt needs one")
    limit = model.caps.max_len
    for number, prompt in enumerate(prompts, 1):
        if not prompt:
            raise UsageError(f"prompt {number} is empty: begin it with the tokenizer's first token")
        if limit is not None and len(prompt) >= limit:
            raise UsageError(f"prompt {number} has {len(prompt)} tokens; with its continuation this model can hold {limit}: shorten it")
