"""Which tokens are hidden, over many draws."""

import math

import numpy as np
import pytest
import torch

from attentif.tasks.pretraining.masking import Vocabulary, choose, hide, special_ids
from attentif.tasks.ragged import UNSCORED
from attentif.text import TOKENIZERS

TEXTS = [
    "Un film extraordinairement long, et pourtant magnifique : j'ai ri, j'ai pleuré !",
    "L'actrice principale est remarquable ; l'éclairage, décevant.",
    "Scénario incompréhensible, dialogues interminables, musique assourdissante.",
] * 4


def tokenizer(kind, **options):
    return TOKENIZERS[kind].model_validate({"kind": kind, "min_count": 1} | options).fit(TEXTS)


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(tokenizer("bpe", vocab=330))


def within(count, total, share, deviations=4.5):
    """A binomial count lies so near to its mean but once in 150,000 times."""
    return abs(count - share * total) <= deviations * math.sqrt(total * share * (1 - share))


@pytest.fixture(scope="module")
def drawn(vocabulary):
    """A hundred thousand tokens, some of them special, and what became of them."""
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(vocabulary.tokenizer.vocab, (400, 250), generator=generator)
    chosen = choose(ids, vocabulary, 0.15, generator=generator)
    return ids, chosen, *hide(ids, chosen, vocabulary, generator=generator)


def test_fifteen_in_a_hundred_tokens_are_chosen_and_no_special_one(vocabulary, drawn):
    ids, chosen, _, _ = drawn
    special = vocabulary.special[ids]
    assert special.sum() > 1000
    assert not chosen[special].any()
    assert within(int(chosen.sum()), int((~special).sum()), 0.15)


def test_of_the_chosen_80_become_a_mask_10_another_token_and_10_stay(vocabulary, drawn):
    ids, chosen, hidden, _ = drawn
    total = int(chosen.sum())
    masked = hidden == vocabulary.tokenizer.mask
    assert within(int((masked & chosen).sum()), total, 0.8)
    same = (hidden == ids) & chosen
    by_chance = 0.1 / len(vocabulary.ordinary)  # a drawn token that is the token itself
    assert within(int(same.sum()), total, 0.1 + by_chance)
    other = chosen & ~masked & ~same
    assert within(int(other.sum()), total, 0.1 - by_chance)
    assert not vocabulary.special[hidden[other]].any()
    counts = torch.bincount(hidden[other], minlength=vocabulary.tokenizer.vocab)[vocabulary.ordinary].double()
    expected = float(counts.sum()) / len(counts)
    assert float(((counts - expected) ** 2 / expected).sum()) < len(counts) + 6 * math.sqrt(2 * len(counts))  # χ², drawn evenly


def test_what_is_not_chosen_is_read_as_it_is_and_not_scored(drawn):
    ids, chosen, hidden, labels = drawn
    assert (hidden[~chosen] == ids[~chosen]).all()
    assert (labels[~chosen] == UNSCORED).all()
    assert (labels[chosen] == ids[chosen]).all()


def test_a_text_is_hidden_anew_each_time_and_the_same_from_the_same_state(vocabulary):
    ids = torch.tensor(vocabulary.tokenizer.encode(TEXTS[0]).ids)
    torch.manual_seed(0)
    draws = [choose(ids, vocabulary, 0.15) for _ in range(20)]
    assert len({tuple(draw.tolist()) for draw in draws}) > 15
    torch.manual_seed(0)
    assert (choose(ids, vocabulary, 0.15) == draws[0]).all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [("bpe", {"vocab": 330}), ("wordpiece", {"vocab": 120}), ("unigram", {"vocab": 330}), ("word", {"vocab": 60}), ("char", {"vocab": 60})],
)
def test_whole_words_are_hidden_whole_or_not_at_all(kind, options):
    """The words of a text are found without the tokenizer's help: runs of letters, by the places of their characters."""
    own = tokenizer(kind, **options)
    encoding = own.encode(TEXTS[0])
    ids, text = torch.tensor(encoding.ids), TEXTS[0]
    word_of, number = [], 0
    for place, character in enumerate(text):
        number += not (character.isalnum() and place and text[place - 1].isalnum())
        word_of.append(number)
    first_letter = lambda start, end: next((place for place in range(start, end) if not text[place].isspace()), start)
    words = np.array([-1 if start == end else word_of[first_letter(start, end)] for start, end in encoding.offsets])
    several = 0
    vocabulary, generator = Vocabulary(own), torch.Generator().manual_seed(1)
    for _ in range(60):
        chosen = choose(ids, vocabulary, 0.3, whole_words=True, generator=generator).numpy()
        for word in np.unique(words[words >= 0]):
            share = chosen[words == word].mean()
            assert share in (0.0, 1.0), (kind, encoding.tokens, word)
            several += (words == word).sum() > 1 and share == 1.0
    assert several > 20 or kind == "word"


def test_whole_words_are_chosen_as_often_as_single_tokens(vocabulary):
    ids = torch.tensor(vocabulary.tokenizer.encode(" ".join(TEXTS)).ids)
    generator = torch.Generator().manual_seed(3)
    share = np.mean([choose(ids, vocabulary, 0.15, whole_words=True, generator=generator).double().mean().item() for _ in range(300)])
    assert abs(share - 0.15) < 0.01


def test_words_do_not_go_on_from_one_text_of_a_pack_to_the_next(vocabulary):
    one, two = (vocabulary.tokenizer.encode(text).ids for text in ("film", "magnifique"))
    assert not vocabulary.continues(torch.tensor(one + two))[len(one) + 1]


def test_every_special_token_is_known_to_be_one():
    own = tokenizer("bpe", vocab=330, special=["[VU]"])
    names = {own.rust.id_to_token(number) for number in special_ids(own)}
    assert names == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[BOS]", "[EOS]", "[VU]"}
