"""A conversation with a language model: what was said stays in the state, and only what is new is read.

A language model goes on with a text; here the text is a dialogue. How it is written down is its script: a line each in turn
(`LineDialogue`), or the form that the model was trained on, by its chat template (`turns.Turns`). What the model was not trained on it
will not know how to do: it answers in the manner of its text."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import torch

from attentif.decode.generate import write
from attentif.decode.options import GenerateOptions
from attentif.decode.session import Writing
from attentif.text import Tokenizer

ROOM = 4096  # tokens of a conversation that are kept, where the model sets no limit of its own
Start = Callable[[Sequence[int], int], Writing]  # the first tokens of a text, and how many more there may be


class Script(Protocol):
    """A dialogue as a text."""

    @property
    def ends(self) -> Collection[int]:
        """Tokens that end an answer."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts that end it."""
        ...

    def hear(self, line: str) -> None: ...

    def say(self, tokens: Sequence[int], text: str) -> None:
        """What the model answered."""
        ...

    def prompt(self) -> list[int]:
        """All that was said, up to where the next answer begins."""
        ...

    def forget(self, room: int) -> None:
        """Leave out what is long past, until the prompt takes at most `room` tokens."""
        ...


class LineDialogue:
    """A line each in turn, after the tokens that a text begins with."""

    stop = ("\n",)

    def __init__(self, tokenizer: Tokenizer, first: Sequence[int] | None = None) -> None:
        self.tokenizer, self.ends = tokenizer, tokenizer.ends
        self.first = [tokenizer.eos] if first is None else list(first)
        self.text = list(self.first)

    def hear(self, line: str) -> None:
        self.text += self.tokenizer.ids_batch([line + "\n"], wrap="none")[0].tolist()

    def say(self, tokens: Sequence[int], text: str) -> None:
        self.text += tokens

    def prompt(self) -> list[int]:
        return list(self.text)

    def forget(self, room: int) -> None:
        """Go on with the last half."""
        self.text = [*self.first, *self.text[-max(1, room // 2) :]]


class Conversation:
    """Questions and answers in turn. `limit` is the longest text that the model can hold."""

    def __init__(
        self, start: Start, tokenizer: Tokenizer, options: GenerateOptions, limit: int | None = None, script: Script | None = None
    ) -> None:
        self.start, self.tokenizer = start, tokenizer
        self.script: Script = script or LineDialogue(tokenizer)
        self.options = options if options.stop or not self.script.stop else options.replace(stop=self.script.stop)
        self.room = limit or ROOM
        self.turns = 0
        self.session: Writing | None = None
        self.read: list[int] = []  # what the session has read

    @property
    def text(self) -> list[int]:
        """All that was said."""
        return self.script.prompt()

    @torch.no_grad()
    def answer(self, line: str) -> Iterator[str]:
        """The answer to a line, piece by piece as it is written."""
        self.script.hear(line)
        prompt = self.script.prompt()
        if len(prompt) + self.options.max_tokens > self.room:
            self.script.forget(self.room - self.options.max_tokens)
            prompt = self.script.prompt()
        session, self.session = self._session(prompt), None  # no longer what was read, should the answer be broken off
        seed = None if self.options.seed is None else self.options.seed + self.turns  # no two answers by the same draws
        options, self.turns = self.options.replace(seed=seed), self.turns + 1
        chosen, said = [], ""
        for token in write(session, [prompt], options, stop_tokens=self.script.ends, decode=self.tokenizer.decode):
            chosen.append(token.token)
            said += token.text
            yield token.text
        self.session, self.read = session, [*prompt, *chosen[:-1]]  # the last was chosen, not read
        self.script.say(chosen[:-1] if chosen[-1] in self.script.ends else chosen, said)

    def _session(self, prompt: list[int]) -> Writing:
        """The state at the end of a prompt: the one at hand where the prompt goes on from what it has read, or a new one."""
        known = len(self.read)
        if self.session is None or prompt[:known] != self.read:
            return self.start(prompt, self.room - len(prompt))
        if known < len(prompt):
            self.session.extend(prompt[known:])
        return self.session
