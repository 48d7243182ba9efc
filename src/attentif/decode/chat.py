"""A conversation with a language model: what was said stays in the state, and only what is new is read.

A language model goes on with a text; here the text is a dialogue, a line each in turn. What the model was not trained on it will not
know how to do: it answers in the manner of its text.
"""

from collections.abc import Callable, Iterator, Sequence

import torch

from attentif.decode.generate import write
from attentif.decode.options import GenerateOptions
from attentif.decode.session import Writing
from attentif.text import Tokenizer

ROOM = 4096  # tokens of a conversation that are kept, where the model sets no limit of its own
Start = Callable[[Sequence[int], int], Writing]  # the first tokens of a text, and how many more there may be


class Conversation:
    """Lines in turn. `limit` is the longest text that the model can hold."""

    def __init__(self, start: Start, tokenizer: Tokenizer, options: GenerateOptions, limit: int | None = None) -> None:
        self.start, self.tokenizer = start, tokenizer
        self.options = options if options.stop else options.changed(stop=("\n",))
        self.room = limit or ROOM
        self.text: list[int] = [tokenizer.eos]  # all that was said
        self.turns = 0
        self.session: Writing | None = None
        self.held = 0  # tokens that the session has read

    @torch.no_grad()
    def answer(self, line: str) -> Iterator[str]:
        """The answer to a line, piece by piece as it is written."""
        self.text += self.tokenizer.ids_batch([line + "\n"], wrap="none")[0].tolist()
        self._read()
        assert self.session is not None
        seed = None if self.options.seed is None else self.options.seed + self.turns  # no two answers by the same draws
        options, self.turns = self.options.changed(seed=seed), self.turns + 1
        for token in write(self.session, [self.text], options, stop_tokens=[self.tokenizer.eos], decode=self.tokenizer.decode):
            if token.token != self.tokenizer.eos:
                self.text.append(token.token)
            yield token.text
        self.held = len(self.text) - 1 if token.token != self.tokenizer.eos else len(self.text)  # the last was chosen, not read

    def _read(self) -> None:
        """Bring the state to the end of the text; where it would not fit, begin again with its last half."""
        need = len(self.text) + self.options.max_tokens
        if self.session is None or need > self.room:
            if need > self.room:
                self.text = [self.tokenizer.eos, *self.text[-max(1, (self.room - self.options.max_tokens) // 2) :]]
            self.session = self.start(self.text, self.room - len(self.text))
        else:
            for token in self.text[self.held :]:
                self.session.read(torch.tensor([token], device=self.session.device))
        self.held = len(self.text)
