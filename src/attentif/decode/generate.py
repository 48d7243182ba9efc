"""Continuations, one token at a time: greedy or drawn, several prompts of different lengths side by side.

    for token in stream(model, [ids], options, decode=tokenizer.decode):
        print(token.text, end="")

An encoder-decoder gets its `source`, and prompts that hold the first token of the target.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

import torch
from torch import Tensor

from attentif.decode.beam import beam_search
from attentif.decode.limits import Limiter
from attentif.decode.lookup import PromptLookup
from attentif.decode.options import GenerateOptions
from attentif.decode.sampling import Sampler
from attentif.decode.session import Session, Writing, check_prompts
from attentif.decode.text import Decode, Writer
from attentif.errors import UsageError
from attentif.models import Input, Model, eval_mode

Finish = Literal["token", "text", "length", "limit"]  # a stop token, a stop text, max_tokens, the longest the model can hold


@dataclass(frozen=True, slots=True)
class Token:
    """One step of one row."""

    row: int
    token: int
    text: str  # what became certain with it; empty while it may still change, or without `decode`
    finish: Finish | None  # why it was the row's last
    log_prob: float | None  # by the model itself, before temperature and filters; where asked for
    alternatives: tuple[tuple[int, float], ...]  # the likeliest tokens with theirs, best first


@dataclass(frozen=True, slots=True)
class Generated:
    """A whole continuation."""

    tokens: list[int]  # without the stop token
    text: str | None  # up to the stop text; None without `decode`
    finish: Finish
    log_prob: float | None = None  # of all its tokens, the stop token too; where asked for, or from a beam search
    steps: list[Token] = field(default_factory=list)  # none from a beam search

    def __str__(self) -> str:
        return self.text or ""

    def _repr_html_(self) -> str:
        count = f"{len(self.tokens):,} tokens, {self.finish}"
        return f'<div style="white-space: pre-wrap">{escape(str(self))}</div><div style="opacity: 0.7">{count}</div>'


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions | None = None,
    *,
    source: Input | None = None,
    stop_tokens: Collection[int] = (),
    decode: Decode | None = None,
    alternatives: int | None = None,
) -> list[Generated]:
    """One continuation a prompt. `alternatives` asks for the probability of every token and of so many likeliest ones."""
    options = options or GenerateOptions()
    if options.beams > 1:
        if alternatives is not None:
            raise UsageError("a beam search has no alternatives by step: ask beam_search for its tree")
        best = [found[0] for found in beam_search(model, prompts, options, source=source, stop_tokens=stop_tokens)]
        return [Generated(h.tokens, decode(h.tokens) if decode else None, h.finish, h.log_prob) for h in best]
    steps = stream(model, prompts, options, source=source, stop_tokens=stop_tokens, decode=decode, alternatives=alternatives)
    return collect(steps, len(prompts), decode is not None)


def collect(tokens: Iterable[Token], rows: int, with_text: bool) -> list[Generated]:
    """The steps of some rows as whole continuations."""
    steps: list[list[Token]] = [[] for _ in range(rows)]
    for token in tokens:
        steps[token.row].append(token)
    return [_whole(row, with_text) for row in steps]


def _whole(steps: list[Token], with_text: bool) -> Generated:
    finish = steps[-1].finish
    assert finish is not None
    tokens = [step.token for step in (steps[:-1] if finish == "token" else steps)]
    log_probs = [step.log_prob for step in steps if step.log_prob is not None]
    text = "".join(step.text for step in steps) if with_text else None
    return Generated(tokens, text, finish, sum(log_probs) if log_probs else None, steps)


def stream(
    model: Model,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions | None = None,
    *,
    source: Input | None = None,
    stop_tokens: Collection[int] = (),
    decode: Decode | None = None,
    alternatives: int | None = None,
) -> Iterator[Token]:
    """Every token as soon as it is chosen, those of one step in the order of their rows."""
    options = options or GenerateOptions()
    if options.beams > 1:
        raise UsageError("a beam search knows its first token only at the end: it cannot be streamed")
    if options.stop and decode is None:
        raise UsageError("stop texts need `decode`, the tokenizer's function from tokens to text")
    check_prompts(model, prompts, source)  # what is wrong is said now, not with the first token
    return _steps(model, prompts, options, source, stop_tokens, decode, alternatives) if prompts else iter(())


@torch.no_grad()
def _steps(
    model: Model,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions,
    source: Input | None,
    stop_tokens: Collection[int],
    decode: Decode | None,
    alternatives: int | None,
) -> Iterator[Token]:
    with eval_mode(model):
        session: Writing = Session(model, prompts, options.max_tokens, source)
        if source is None and options.lookup and isinstance(session, Session) and PromptLookup.suits(session):
            session = PromptLookup(session, prompts[0])
        yield from write(session, prompts, options, stop_tokens=stop_tokens, decode=decode, alternatives=alternatives)


def write(
    session: Writing,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions,
    *,
    stop_tokens: Collection[int] = (),
    decode: Decode | None = None,
    alternatives: int | None = None,
) -> Iterator[Token]:
    """The same from whatever gives scores of the next token: `session` has read the prompts."""
    rows = [_Row(number, prompt, options, decode, session.limit) for number, prompt in enumerate(prompts)]
    vocab = session.logits.shape[1]
    sampler, limiter = Sampler(options, prompts, vocab, session.device), Limiter(options, options.max_tokens, stop_tokens, vocab)
    while True:
        chosen = sampler.choose(limiter(session.logits, [row.text for row in rows], rows[0].written))
        shown = _probabilities(session.logits, chosen, alternatives)
        for place, (row, token) in enumerate(zip(rows, chosen.tolist(), strict=True)):
            yield row.write(token, token in stop_tokens, *shown[place])
        going = [place for place, row in enumerate(rows) if row.finish is None]
        if not going:
            return
        if len(going) < len(rows):
            rows, chosen = [rows[place] for place in going], chosen[going]
            session.select(going)
            sampler.select(going)
        session.read(chosen)


class _Row:
    """What is written of one continuation."""

    def __init__(self, number: int, prompt: Sequence[int], options: GenerateOptions, decode: Decode | None, limit: int | None) -> None:
        self.number, self.max_tokens = number, options.max_tokens
        self.room = None if limit is None else limit - len(prompt)
        self.writer = Writer(decode, options.stop) if decode else None
        self.text = [*prompt]
        self.written = 0
        self.finish: Finish | None = None

    def write(self, token: int, is_stop: bool, log_prob: float | None, alternatives: tuple[tuple[int, float], ...]) -> Token:
        self.written += 1
        self.text.append(token)
        text = self.writer.push(token) if self.writer and not is_stop else ""
        if is_stop:
            self.finish = "token"
        elif self.writer and self.writer.stopped:
            self.finish = "text"
        elif self.written == self.max_tokens:
            self.finish = "length"
        elif self.written == self.room:
            self.finish = "limit"
        if self.finish and self.writer:
            text += self.writer.finish()
            if self.writer.stopped:  # by what the last tokens turned out to be
                self.finish = "text"
        return Token(self.number, token, text, self.finish, log_prob, alternatives)


Shown = tuple[float | None, tuple[tuple[int, float], ...]]


def _probabilities(logits: Tensor, chosen: Tensor, alternatives: int | None) -> list[Shown]:
    """The log-probability of each row's token, and the likeliest tokens with theirs."""
    if alternatives is None:
        return [(None, ())] * len(logits)
    log_probs = logits.log_softmax(-1)
    own = log_probs.gather(1, chosen[:, None])[:, 0].tolist()
    top = log_probs.topk(min(alternatives, logits.shape[1]))
    likeliest = [tuple(zip(*pair, strict=True)) for pair in zip(top.indices.tolist(), top.values.tolist(), strict=True)]
    return list(zip(own, likeliest, strict=True))
