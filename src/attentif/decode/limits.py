"""What may not be written next, however likely it is.

    banned, banned_first    tokens that are never written, or not as the first one              (Whisper's `suppress_tokens`)
    no_repeat_ngram = n     a token that would end n tokens which stand in the text already     (Paulus et al. 2018, section 2.5)
    min_tokens              a stop token before so many are written
    forced_end              at `max_tokens`, anything but a stop token

Functions of scores (B, V): what may not be written gets −∞ and the rest keeps its score, so that a beam's log P stays the model's. A stop
token that is forced costs nothing.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from attentif.config import Config
from attentif.errors import UsageError

NEVER = float("-inf")
Tokens = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)]


class Limits(Config):
    """What may not be written."""

    banned: Tokens = Field((), description="ids of tokens that are never written")
    banned_first: Tokens = Field((), description="ids of tokens that a text does not begin with")
    no_repeat_ngram: int = Field(0, ge=0, description="n: no n tokens stand twice in a text, the prompt counted (0: they may)")
    min_tokens: int = Field(0, ge=0, description="fewest tokens to write before a stop token")
    forced_end: bool = Field(False, description="a text cut at max_tokens ends with a stop token there, as a whole one does")


class Limiter:
    """What `Limits` say, at each step of texts that are written side by side."""

    def __init__(self, limits: Limits, max_tokens: int, stop_tokens: Collection[int], vocab: int) -> None:
        self.limits, self.max_tokens, self.stop_tokens = limits, max_tokens, sorted(stop_tokens)
        if odd := [token for token in (*limits.banned, *limits.banned_first) if token >= vocab]:
            raise UsageError(f"banned: there is no token {odd[0]}: the model has {vocab:,}")

    def __call__(self, scores: Tensor, texts: Sequence[Sequence[int]], written: int) -> Tensor:
        """Scores (B, V) of the next token of each text, which begins with its prompt; `written` tokens of it are new."""
        limits = self.limits
        if limits.forced_end and written + 1 == self.max_tokens and self.stop_tokens:
            return scores.new_full(scores.shape, NEVER).index_fill_(1, self._index(scores, self.stop_tokens), 0.0)
        never = [*limits.banned, *(limits.banned_first if written == 0 else ())]
        never += self.stop_tokens if written < limits.min_tokens else []
        if never:
            scores = scores.index_fill(1, self._index(scores, never), NEVER)
        n = limits.no_repeat_ngram
        if n and (pairs := [(row, token) for row, text in enumerate(texts) for token in find_repeats(text, n)]):
            rows, tokens = self._index(scores, pairs).T
            scores = scores.index_put((rows, tokens), scores.new_tensor(NEVER))
        return scores

    @staticmethod
    def _index(like: Tensor, numbers: Sequence[Any]) -> Tensor:
        return torch.tensor(numbers, device=like.device)


def find_repeats(text: Sequence[int], n: int) -> set[int]:
    """The tokens that would end n tokens which the text holds already."""
    text = tuple(text)
    end = text[len(text) - n + 1 :] if n > 1 else ()
    return {text[place + n - 1] for place in range(len(text) - n + 1) if text[place : place + n - 1] == end}
