"""Generation for the studio: the exact scores of the next token, and a text written token by token from any prefix of ids."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from attentif.api import Run
from attentif.decode import GenerateOptions
from attentif.decode.sampling import adjust_logits, draw
from attentif.errors import UsageError
from attentif.serve.studio.answers import softmax_top
from attentif.serve.studio.library import Library
from attentif.serve.studio.messages import Next, NextRequest, WriteRequest
from attentif.serve.studio.numbers import Numbers
from attentif.serve.studio.reading import token_names

ALTERNATIVES = 8
NAMED = 60  # likeliest tokens whose names a page gets


@dataclass(frozen=True)
class Written:
    """One token of a text that is being written."""

    id: int
    name: str
    text: str  # all that was written so far
    probability: float
    alternatives: list[tuple[int, str, float]]
    last: bool


def prompt_ids(run: Run, asked: NextRequest) -> list[int]:
    """Tokens of the prompt and of what was written after it."""
    ids = [*run.require("generate").prompt(run.tokenizers, asked.text), *asked.ids]
    if any(token >= run.tokenizer.vocab for token in asked.ids):
        raise UsageError("there is no such token")
    return ids


def names_of(run: Run, asked: NextRequest) -> list[str]:
    """The names of tokens that were written."""
    if any(token >= run.tokenizer.vocab for token in asked.ids):
        raise UsageError("there is no such token")
    return token_names(run.tokenizer, asked.ids)


@torch.no_grad()
def next_token(run: Run, asked: NextRequest) -> Next:
    """The score of every token that may come next."""
    ids = prompt_ids(run, asked)
    logits = run.require("generate").session(run.model, ids, 1).logits[0].float()
    top = logits.topk(min(NAMED, len(logits))).indices.tolist()
    return Next(ids=ids, tokens=token_names(run.tokenizer, ids), logits=Numbers.of(logits), top=top, names=token_names(run.tokenizer, top))


@torch.no_grad()
def write(library: Library, id: str, asked: WriteRequest) -> Iterator[Written]:
    """Tokens as they are chosen; other requests are answered between two of them."""
    with library.run(id, asked.step) as run:
        generator, tokenizer = run.require("generate"), run.tokenizer
        ids = prompt_ids(run, asked)
        session = generator.session(run.model, ids, asked.tokens + 1)
        stops = {tokenizer.eos} if tokenizer.eos is not None else set()
    options = GenerateOptions(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p)
    chance = np.random.default_rng(asked.seed)
    written = list(asked.ids)
    for number in range(asked.tokens):
        with library.lock:
            if number:
                session.read(torch.tensor([written[-1]]))
            logits = session.logits[:1].float()
        scores = adjust_logits(logits, options)
        token = int(draw(scores, torch.tensor([chance.random()], dtype=torch.float64))) if asked.temperature else int(scores.argmax())
        others, p = softmax_top(logits[0], ALTERNATIVES)
        written.append(token)
        full = session.limit is not None and len(ids) + number + 1 >= session.limit
        last = number + 1 == asked.tokens or token in stops or full
        yield Written(
            id=token,
            name=token_names(tokenizer, [token])[0],
            text=tokenizer.decode(written),
            probability=float(logits[0].softmax(-1)[token]),
            alternatives=[(other, name, share) for other, name, share in zip(others, token_names(tokenizer, others), p, strict=True)],
            last=last,
        )
        if last:
            return
