from typing import Any

import pytest

from attentif.tasks.tagging.word_tokens import encode_words, find_words
from attentif.text import TOKENIZERS, Tokenizer

TEXTS = ["L' été à Nice , c' est beau", "Zoé et l' ami d' Arc-en-ciel vivent à Nice"] * 5
KINDS = ["bpe", "wordpiece", "unigram", "word", "char", "byte"]


def tokenizer(kind: str, **options: Any) -> Tokenizer:
    size = {} if kind == "byte" else {"vocab": 400}
    return TOKENIZERS[kind].model_validate({"kind": kind} | size | options).fit(TEXTS)


def spelt(own: Tokenizer, ids: Any) -> str:
    return own.decode(ids).replace(" ", "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_has_a_first_token_of_its_own(kind: str) -> None:
    own = tokenizer(kind)
    words = ["L'", "été", "à", "Nice", ",", "aujourd'", "hui", "Arc-en-ciel"]
    ((ids, firsts),) = encode_words(own, [words], 200)
    assert len(firsts) == len(words) == len(set(firsts))
    assert firsts == sorted(firsts)
    assert (ids[0], ids[-1]) == (own.cls, own.sep)
    for word, a, b in zip(words, firsts, [*firsts[1:], len(ids) - 1], strict=True):
        if kind in ("bpe", "byte"):  # whose tokens give the text back exactly
            assert spelt(own, ids[a:b]) == word


@pytest.mark.parametrize("kind", KINDS)
def test_a_words_tokens_are_those_it_has_in_running_text(kind: str) -> None:
    own = tokenizer(kind)
    ((ids, _),) = encode_words(own, [TEXTS[0].split(" ")], 200)
    assert ids.tolist() == own.ids_batch(TEXTS[:1])[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_tokenizer_drops_becomes_one_unknown_token(kind: str) -> None:
    own = tokenizer(kind, strip_accents=True)
    words = ["Nice", "\u0301", "", "beau"]  # a lone accent, and nothing at all
    ((ids, firsts),) = encode_words(own, [words], 200)
    assert len(firsts) == 4
    assert [int(ids[first]) for first in firsts[1:3]] == [own.unk, own.unk]
    assert int(ids[firsts[3]]) != own.unk


def test_accents_typed_in_two_pieces_stay_one_word() -> None:
    own = tokenizer("bpe")
    composed, typed = encode_words(own, [["été", "beau"], ["e\u0301te\u0301", "beau"]], 200)
    assert composed[0].tolist() == typed[0].tolist()
    assert composed[1] == typed[1]


def test_words_past_the_limit_have_no_token() -> None:
    own = tokenizer("char")
    ((ids, firsts),) = encode_words(own, [["abc", "Nice", "beau"]], 7)
    assert len(ids) == 7
    assert ids[-1] == own.sep
    assert len(firsts) == 2  # [CLS] a b c _ N [SEP]: "Nice" has its first letter, "beau" none


def test_running_text_is_cut_as_french_corpora_do() -> None:
    text = "L’été, c'est l'Arc-en-ciel de M. Vardin !"
    assert [text[a:b] for a, b in find_words(text)] == ["L’", "été", ",", "c'", "est", "l'", "Arc-en-ciel", "de", "M", ".", "Vardin", "!"]
