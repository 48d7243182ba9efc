"""Hidden words of a text, filled in: p(x_t | the text, its hidden places still hidden), for each hidden place t by itself.

As transformers' fill-mask has it: the softmax is over all tokens, special ones included, and two hidden places are not guessed together.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attentif.errors import NonFiniteError, UsageError
from attentif.models import Batch, Input, Model, eval_mode
from attentif.nn.seq import Seq
from attentif.tasks.attention import readable_tokens
from attentif.tasks.batches import device_of
from attentif.text import Tokenizer
from attentif.view.notebook import show_guesses

MARKS = r"\[mask\]|<mask>|_{3,}"  # what people write for a hidden word, whatever the tokenizer's own mark
CONTINUES = "##"  # what WordPiece writes before a piece that goes on with a word
Seen = Callable[[Model, Batch], tuple[torch.Tensor, Seq]]
SPACES = ("Ġ", "▁")  # with what a token begins that begins a word, where spaces are parts of tokens


@dataclass(frozen=True, slots=True)
class TokenGuess:
    """One token for one hidden place."""

    word: str  # as people read it; ## before a piece that goes on with a word
    probability: float
    text: str  # with this token there, and the likeliest one at each other hidden place
    token: int


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with its hidden places."""

    input: str
    text: str  # with the likeliest token at each
    places: tuple[tuple[TokenGuess, ...], ...]  # the guesses for each, likeliest first

    def _repr_html_(self) -> str:
        return show_guesses(self.text, [[(guess.word, guess.probability, guess.text) for guess in place] for place in self.places])


def fill(model: Model, tokenizer: Tokenizer, text: str, count: int, longest: int, seen: Seen = Model.hidden) -> Filled:
    """The `count` likeliest tokens at each hidden place; a text of more than `longest` tokens is refused, for it could lose a place."""
    if count < 1:
        raise UsageError(f"count must be 1 or more, not {count}")
    mask = str(tokenizer.rust.id_to_token(tokenizer.mask))
    marks = re.compile(f"{MARKS}|{re.escape(mask)}", re.IGNORECASE)
    ids = tokenizer.encode(marks.sub(lambda _: mask, text), specials_in_text=True).ids
    hidden = [place for place, token in enumerate(ids) if token == tokenizer.mask]
    around = marks.split(text)  # as it was written: decoding would lose unknown words, and case
    if not hidden or len(around) != len(hidden) + 1:
        raise UsageError(f'the text hides no word: write {mask} (or ___) where one is to be found, as in "Le film est {mask}."')
    if len(ids) > longest:
        raise UsageError(f"the text has {len(ids):,} tokens, and this model reads {longest:,}: make it shorter")
    p = probabilities(model, Batch(Input(torch.tensor([ids]), Seq.from_padded([len(ids)]))), hidden, seen)
    if p.isnan().any():
        raise NonFiniteError
    best = p.topk(min(count, p.shape[-1]))
    pieces = [TokenSpan.of(tokenizer, token) for token in best.indices[:, 0].tolist()]
    places = []
    for number, (tokens, shares) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True)):
        others = (pieces[:number], pieces[number + 1 :])
        texts = [join_pieces(around, [*others[0], TokenSpan.of(tokenizer, token), *others[1]]) for token in tokens]
        places.append(tuple(map(TokenGuess, readable_tokens(tokenizer, tokens), shares, texts, tokens)))
    return Filled(text, join_pieces(around, pieces), tuple(places))


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token as a part of a text."""

    text: str
    goes_on: bool  # with the word before it

    @classmethod
    def of(cls, tokenizer: Tokenizer, token: int) -> "TokenSpan":
        name = str(tokenizer.rust.id_to_token(token) or "")
        if name.startswith(CONTINUES):
            return cls(name.removeprefix(CONTINUES), True)
        spaced = type(tokenizer.rust.model).__name__ in ("BPE", "Unigram") and token not in tokenizer.special.values()
        return cls(tokenizer.decode([token]).strip() or name, spaced and not name.startswith(SPACES))


def join_pieces(around: Sequence[str], pieces: Sequence[TokenSpan]) -> str:
    """The parts of a text with a token between each two."""
    whole = around[0]
    for piece, after in zip(pieces, around[1:], strict=True):
        whole = (whole.rstrip() if piece.goes_on else whole) + piece.text + after
    return whole


def probabilities(model: Model, batch: Batch, places: Sequence[int], seen: Seen = Model.hidden) -> torch.Tensor:
    """(places, V), of the tokens that may stand at some places of one text, by the vectors that are `seen` there."""
    with eval_mode(model):
        x, seq = seen(model, batch.to(device_of(model)))
        logits: torch.Tensor = model.head(x.flatten(0, -2)[list(places)], seq).float().cpu()
    return logits.softmax(-1)
