"""One continuation while it is written: its draws, its limits, its text."""

import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attentif.decode.limits import Limiter
from attentif.decode.options import GenerateOptions
from attentif.decode.sampling import Sampler
from attentif.decode.text import Writer
from attentif.serve.messages import ChosenToken, TokenLogprob, TokenMessage
from attentif.text import Tokenizer
from attentif.text.explain import BYTE_OF, is_byte_level


@dataclass(frozen=True)
class Prompt:
    """What is to be continued, and how."""

    request: int
    client: str
    model: str
    choice: int
    draw: int  # number of this choice among those of its prompt: the same seed draws differently for each
    ids: Sequence[int]
    options: GenerateOptions
    ends: Collection[int]  # tokens that end the text
    logprobs: int | None
    deadline: float  # of time.monotonic()

    @property
    def expired(self) -> bool:
        return time.monotonic() > self.deadline


class TokenTexts:
    """Tokens as texts and bytes, for log-probabilities."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.byte_level = tokenizer, is_byte_level(tokenizer)

    def logprob(self, token: int, value: float) -> TokenLogprob:
        raw = self.bytes(token)
        return TokenLogprob(token=raw.decode("utf-8", "replace"), bytes=list(raw), logprob=max(value, -9999.0))

    def bytes(self, token: int) -> bytes:
        """What a token stands for in a text; a special token, its name."""
        name = str(self.tokenizer.rust.id_to_token(token) or "")
        if self.byte_level and all(symbol in BYTE_OF for symbol in name):
            return bytes(BYTE_OF[symbol] for symbol in name)
        return (self.tokenizer.decode([token]) or name).encode("utf-8", "replace")


class WritingRow:
    """A row of the batch. `push` takes its scores and gives the next piece; `token` is what the model reads next."""

    def __init__(self, prompt: Prompt, tokenizer: Tokenizer, vocabulary: TokenTexts, vocab: int) -> None:
        self.prompt, self.vocabulary = prompt, vocabulary
        options = prompt.options
        self.writer = Writer(tokenizer.decode, options.stop)
        self.text = [*prompt.ids]
        self.written, self.token = 0, 0
        self.finished = False
        self.limiter = Limiter(options, options.max_tokens, prompt.ends, vocab)
        self.sampler = Sampler(options, [prompt.ids], vocab, torch.device("cpu"))
        if options.temperature:
            seed = secrets.randbits(63) if options.seed is None else options.seed
            self.sampler.random = [np.random.default_rng((seed, prompt.draw))]
        self.is_plain = not (
            options.temperature
            or options.banned
            or options.banned_first
            or options.no_repeat_ngram
            or options.min_tokens
            or options.forced_end
            or options.repetition_penalty != 1
        )

    def push(self, logits: Tensor, likeliest: int) -> TokenMessage:
        """Choose a token by scores (V,), the largest of which is `likeliest`'s."""
        if self.is_plain:
            self.token = likeliest
        else:
            self.token = int(self.sampler.choose(self.limiter(logits[None], [self.text], self.written))[0])
        self.written += 1
        self.text.append(self.token)
        is_end = self.token in self.prompt.ends
        text = "" if is_end else self.writer.push(self.token)
        long = self.written >= self.prompt.options.max_tokens
        self.finished = is_end or self.writer.stopped or long
        if self.finished:
            text += self.writer.finish()
        stopped = is_end or self.writer.stopped
        finish = None if not self.finished else "stop" if stopped else "length"
        shown = None if self.prompt.logprobs is None or is_end else self._logprobs(logits, self.prompt.logprobs)
        return TokenMessage(id=self.prompt.request, choice=self.prompt.choice, text=text, finish=finish, token=shown)

    def _logprobs(self, logits: Tensor, count: int) -> ChosenToken:
        """By the model itself, before temperature and filters."""
        values = logits.log_softmax(-1)
        name = self.vocabulary.logprob
        own = name(self.token, float(values[self.token]))
        best = values.topk(min(count, len(values))) if count else None
        top = [] if best is None else [name(token, value) for token, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        return ChosenToken(token=own.token, bytes=own.bytes, logprob=own.logprob, top=top)
