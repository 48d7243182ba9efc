"""Hidden words: what is written where, and what is refused."""

import pytest
import torch

from attentif.errors import UsageError
from attentif.models import Model, build, resolve
from attentif.tasks.pretraining.fill import TokenSpan, fill, join_pieces
from attentif.text import Tokenizer
from attentif.text.kinds import BPE, WordPiece

TEXTS = ["le chat dort sur le canapé", "les rois aiment les chats"] * 4


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return WordPiece(vocab=60).fit(TEXTS)


def model_of(tokenizer: Tokenizer) -> Model:
    torch.manual_seed(0)
    head = {"kind": "language", "bias": True}
    return build(resolve({"base": "bert-tiny", "frontend": {"vocab": tokenizer.vocab}, "head": head}).with_any_size()).eval()


def test_a_text_keeps_what_its_writer_wrote(tokenizer: Tokenizer) -> None:
    found = fill(model_of(tokenizer), tokenizer, "Le ✈ Chat  ___ , [mask]…", 4, 64)
    for guesses in found.places:
        assert len(guesses) == 4
        assert all(guess.text.startswith("Le ✈ Chat") and guess.text.endswith("…") for guess in guesses)
        assert [guess.probability for guess in guesses] == sorted((guess.probability for guess in guesses), reverse=True)
    assert found.text == found.places[0][0].text == found.places[1][0].text


def test_a_piece_that_goes_on_with_a_word_is_joined_to_it() -> None:
    assert join_pieces(["Le ", " dort, ", "."], [TokenSpan("chat", False), TokenSpan("ez", True)]) == "Le chat dort,ez."


def test_tokens_know_whether_they_begin_a_word(tokenizer: Tokenizer) -> None:
    assert TokenSpan.of(tokenizer, tokenizer.encode("chatssss", wrap="none").ids[-1]).goes_on
    assert not TokenSpan.of(tokenizer, tokenizer.encode("chatssss", wrap="none").ids[0]).goes_on
    assert TokenSpan.of(tokenizer, tokenizer.mask) == TokenSpan("[MASK]", False)
    merged = BPE(vocab=300).fit(TEXTS)
    space = [merged.rust.id_to_token(token).startswith("Ġ") for token in range(merged.vocab)]
    if any(space):
        assert not TokenSpan.of(merged, space.index(True)).goes_on
    assert TokenSpan.of(merged, merged.encode("zz", wrap="none").ids[-1]).goes_on


def test_more_guesses_than_tokens_are_all_there_are(tokenizer: Tokenizer) -> None:
    (guesses,) = fill(model_of(tokenizer), tokenizer, "le ___", 1000, 64).places
    assert sum(guess.probability for guess in guesses) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [("le chat", 5, r"hides no word: write \[MASK\] \(or ___\)"), ("chat " * 80 + "___", 5, "reads 64"), ("le ___", 0, "count must be 1")],
)
def test_what_cannot_be_filled_is_said(tokenizer: Tokenizer, text: str, count: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fill(model_of(tokenizer), tokenizer, text, count, 64)
