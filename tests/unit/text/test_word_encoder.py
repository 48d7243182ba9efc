"""Ids looked up word by word are those of the library for the whole text."""

import random
from itertools import product

import numpy as np
import pytest

from attentif.errors import DataError, RunError
from attentif.text import TOKENIZERS, Tokenizer, encoder_pool, word_encoder
from attentif.text.encoder_pool import encode_batches
from attentif.text.word_encoder import WordEncoder

# white space of every kind, combining marks, characters that change their length in lower case, contractions, special tokens
CHARACTERS = list(" \n\t\r") * 6 + list("abLé1'!.,-") * 3 + ["'s", "'ll", "[SEP]", "e\u0301"]
CHARACTERS += list("\u00a0\u2009\u3000\x0c\x0b\x1c\x1f\x85\u180e\u200b\u2028\ufeff\u0301\u0308İΣ漢🙂¨\u2000½²\u0345ﬁ\x7f١")
IDS = np.dtype("<u2")


def draw_texts(count: int, longest: int, seed: int) -> list[str]:
    dice = random.Random(seed)
    return ["".join(dice.choices(CHARACTERS, k=dice.randrange(1, longest))) for _ in range(count)]


def fit(kind: str, **options: bool) -> Tokenizer:
    return TOKENIZERS[kind](**options, vocab=3000, min_count=1).fit(draw_texts(2000, 60, seed=1))


def whole(tokenizer: Tokenizer, texts: list[str]) -> list[bytes]:
    return [ids.astype(IDS).tobytes() for ids in tokenizer.ids_batch(texts, wrap="none")]


@pytest.mark.parametrize(
    ("kind", "options"),
    [*product(("bpe", "wordpiece"), product((False, True), repeat=3))],
)
def test_words_are_those_of_the_whole_text(kind: str, options: tuple[bool, bool, bool]) -> None:
    tokenizer = fit(kind, **dict(zip(("nfc", "lowercase", "split_digits"), options, strict=True)))
    encoder, texts = WordEncoder(tokenizer, IDS), draw_texts(2000, 14, seed=2)
    assert encoder.by_words
    assert encoder.encode(texts) == whole(tokenizer, texts)


def test_a_tokenizer_that_looks_further_is_given_whole_texts() -> None:
    """A mark that is removed leaves spaces behind that belong to those after them: the cut would be wrong."""
    tokenizer, texts = fit("bpe", strip_accents=True), draw_texts(4000, 14, seed=2)
    encoder = WordEncoder(tokenizer, IDS)
    assert not encoder.by_words
    assert encoder.encode(texts) == whole(tokenizer, texts)
    encoder.by_words = True
    assert encoder.encode(texts) != whole(tokenizer, texts)


def test_words_are_forgotten_where_they_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_encoder, "MEMORY", 10_000)
    tokenizer, texts = fit("bpe"), draw_texts(300, 30, seed=3)
    encoder = WordEncoder(tokenizer, IDS)
    assert [ids for text in texts for ids in encoder.encode([text])] == whole(tokenizer, texts)
    assert len(encoder.known) < 100


def test_processes_give_the_same_ids_in_the_same_order() -> None:
    tokenizer, texts = fit("bpe"), draw_texts(600, 30, seed=4)
    batches = [[(text, True) for text in texts[start : start + 50]] for start in range(0, len(texts), 50)]
    found = list(encode_batches(batches, tokenizer, IDS, processes=2))
    assert [batch for batch, _ in found] == batches
    assert [ids for _, some in found for ids in some] == whole(tokenizer, texts)


def test_what_a_process_cannot_encode_is_said() -> None:
    tokenizer = TOKENIZERS["wordpiece"](vocab=300).fit(["un chat"])
    tokenizer.rust.model = type(tokenizer.rust.model)({"un": 0}, unk_token="[gone]")
    with pytest.raises(DataError, match="cannot encode"):
        list(encode_batches([[("chien", True)]], tokenizer, IDS, processes=2))


def test_a_process_that_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_pool, "COMMAND", ["false"])
    with pytest.raises(RunError, match="ended with code 1"):
        list(encode_batches([[("chien", True)]], fit("bpe"), IDS, processes=2))
