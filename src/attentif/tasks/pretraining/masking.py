"""Choose tokens to mask, and what replaces them.

    chosen    each token, or each word where words are whole, with probability `share`; special tokens never
    hidden    of the chosen ones 80 % become [MASK], 10 % another token drawn evenly, 10 % stay as they are   (Devlin et al. 2019, 3.1)

Everything is drawn from torch's generator, which the loop sets anew for every step: the same text is hidden differently each time it
is read, and a run that was stopped draws what it would have drawn.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attentif.tasks.ragged import UNSCORED
from attentif.text import Tokenizer
from attentif.text.explain import format_token, is_byte_level, read_model
from attentif.text.kinds import BYTES

MASK, RANDOM = 0.8, 0.1  # shares of the chosen tokens; the rest stays as it is


def special_ids(tokenizer: Tokenizer) -> list[int]:
    """Ids of the special tokens."""
    added = [number for number, token in tokenizer.rust.get_added_tokens_decoder().items() if token.special]
    return sorted({*added, *tokenizer.special.values()})


@dataclass(frozen=True)
class Vocabulary:
    """Properties of a vocabulary that masking needs."""

    tokenizer: Tokenizer

    @cached_property
    def special(self) -> Tensor:
        """(V,) true for tokens that stand for no text."""
        table = torch.zeros(self.tokenizer.vocab, dtype=torch.bool)
        table[special_ids(self.tokenizer)] = True
        return table

    @cached_property
    def ordinary(self) -> Tensor:
        """Ids of the ordinary tokens, to draw from."""
        return (~self.special).nonzero().squeeze(1)

    @cached_property
    def inside(self) -> tuple[Tensor, Tensor]:
        """(V,) each: tokens that may continue a word, and tokens after which a word may continue."""
        model, byte_level = read_model(self.tokenizer)["type"], is_byte_level(self.tokenizer)
        tokens = [self.tokenizer.rust.id_to_token(number) or "" for number in range(self.tokenizer.vocab)]
        words = [format_token(token, byte_level) for token in tokens]
        ordinary = [word for word, special in zip(words, self.special.tolist(), strict=True) if not special]
        if model == "WordPiece":
            opens, closes = [word.startswith("##") for word in words], [True] * len(words)
        elif model == "WordLevel" and max(map(len, ordinary), default=0) > 1 and not byte_level:  # every token is a word
            opens = closes = [False] * len(words)
        else:  # spaces are part of the tokens: a word goes on where letters meet
            opens, closes = ([_is_letter(word[place : place + 1 or None]) or word in BYTES for word in words] for place in (0, -1))
            closes = [close or token in ("▁", "Ġ") for close, token in zip(closes, tokens, strict=True)]  # a space that begins a word
        return torch.tensor(opens) & ~self.special, torch.tensor(closes) & ~self.special

    def continues(self, ids: Tensor) -> Tensor:
        """Whether each token continues the word of the token before it, in rows or in a pack (a special token begins every text)."""
        opens, closes = self.inside
        found = torch.zeros_like(ids, dtype=torch.bool)
        found[..., 1:] = opens[ids[..., 1:]] & closes[ids[..., :-1]]
        return found


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in ("_", "⟨", "⟩")  # parts of a character are shown in these brackets


def choose(
    ids: Tensor, vocabulary: Vocabulary, share: float, *, whole_words: bool = False, generator: torch.Generator | None = None
) -> Tensor:
    """True where a token is chosen; padding is a special token."""
    drawn = torch.rand(ids.shape, generator=generator)
    if whole_words:  # all tokens of a word take the number of its first one
        places = torch.arange(ids.shape[-1]).expand(ids.shape)
        first = torch.where(vocabulary.continues(ids), 0, places).cummax(-1).values
        drawn = drawn.gather(-1, first)
    return (drawn < share) & ~vocabulary.special[ids]


def hide(ids: Tensor, chosen: Tensor, vocabulary: Vocabulary, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Input ids and labels: the chosen tokens, all others unscored."""
    fate = torch.rand(ids.shape, generator=generator)
    ordinary = vocabulary.ordinary
    others = ordinary[torch.randint(len(ordinary), ids.shape, generator=generator)]
    hidden = torch.where(fate < MASK, vocabulary.tokenizer.mask, torch.where(fate < MASK + RANDOM, others, ids))
    return torch.where(chosen, hidden, ids), torch.where(chosen, ids, UNSCORED)
