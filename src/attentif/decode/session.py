"""A model in the middle of a text: the prompts are read, a state is kept, one more token of every row is read at a time."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from attentif.errors import NonFiniteError, UsageError
from attentif.models import Input, Model
from attentif.models.heads import LanguageHead
from attentif.nn.seq import Seq


class Writing(Protocol):
    """What can be written from: scores of the next token, read on token by token. A neural model's is a `Session`."""

    logits: Tensor  # (B, V)
    limit: int | None
    device: torch.device

    def read(self, tokens: Tensor) -> None: ...

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
        seq = Seq.padded(torch.tensor(lengths, device=self.device), longest)
        x, _ = model.decode(Input(ids, seq), state=self.state)
        self.upcoming = seq.following()
        self.logits: Tensor = _refuse_nan(model.head(x.flatten(0, 1)[seq.last(), None], self.upcoming)[:, 0])

    def read(self, tokens: Tensor) -> None:
        """One more token (B,) of every row."""
        seq, self.upcoming = self.upcoming, self.upcoming.following()
        x, _ = self.model.decode(Input(tokens[:, None], seq), state=self.state)
        self.logits = _refuse_nan(self.model.head(x, seq)[:, 0])

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order; a row may be taken several times."""
        if list(rows) == list(range(len(self.logits))):
            return
        index = torch.tensor(rows, device=self.device)
        self.state = self.state.select(index)
        self.logits = self.logits[index]
        assert self.upcoming.start is not None  # a prompt was read
        self.upcoming = Seq.padded(torch.ones_like(index), 1, self.upcoming.start[index])


def _refuse_nan(logits: Tensor) -> Tensor:
    if logits.isnan().any():
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
