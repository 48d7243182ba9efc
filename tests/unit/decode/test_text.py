"""Text is given out only once it is certain."""

from collections.abc import Sequence

import pytest

from attentif.decode.text import Writer

PIECES = ["Il", " é", "tait", " une", " fois", "\n", "\n\n", ".", "EN", "D", "E", "ND"]


def pieces(tokens: Sequence[int]) -> str:
    return "".join(PIECES[token] for token in tokens)


def utf8(tokens: Sequence[int]) -> str:
    """A tokenizer of bytes."""
    return bytes(tokens).decode("utf-8", errors="replace")


def write(writer: Writer, tokens: Sequence[int]) -> list[str]:
    given = []
    for token in tokens:
        given.append(writer.push(token))
        if writer.stopped:
            break
    return given


def test_pieces_come_as_they_are_written() -> None:
    writer = Writer(pieces)
    assert write(writer, [0, 1, 2, 3]) == ["Il", " é", "tait", " une"]
    assert writer.finish() == ""


def test_a_character_of_several_tokens_comes_with_its_last_one() -> None:
    text = "né à Nîmes, 5 € 🎬!"
    writer = Writer(utf8)
    given = write(writer, text.encode())
    assert "".join(given) == text
    assert all("\ufffd" not in piece for piece in given)


def test_what_never_becomes_a_character_is_shown_at_the_end() -> None:
    writer = Writer(utf8)
    assert write(writer, "é".encode()[:1]) == [""]
    assert writer.finish() == "\ufffd"


@pytest.mark.parametrize("tokens", [[0, 8, 9, 3], [0, 10, 11, 3], [0, 8, 9], [0, 10, 8, 9]])
def test_a_stop_text_is_found_across_tokens_and_not_given_out(tokens: list[int]) -> None:
    writer = Writer(pieces, ["END"])
    text = "".join(write(writer, tokens)) + writer.finish()
    assert writer.stopped
    assert text == pieces(tokens).split("END")[0]


def test_a_stop_text_inside_one_token_cuts_it() -> None:
    writer = Writer(pieces, ["ai"])
    assert write(writer, [0, 1, 2, 3]) == ["Il", " é", "t"]
    assert writer.stopped


def test_the_earliest_of_several_stop_texts_counts() -> None:
    writer = Writer(pieces, ["it", "ta"])
    assert "".join(write(writer, [1, 2])) == " é"


def test_the_beginning_of_a_stop_text_that_does_not_follow_is_given_back() -> None:
    writer = Writer(pieces, ["\n\n\n"])
    assert write(writer, [0, 5, 0, 6, 0]) == ["Il", "", "\nIl", "", "\n\nIl"]
    assert not writer.stopped


def test_the_beginning_of_a_stop_text_is_given_back_at_the_end() -> None:
    writer = Writer(pieces, ["END"])
    assert write(writer, [0, 8]) == ["Il", ""]
    assert writer.finish() == "EN"


def test_stop_texts_may_hold_characters_of_several_bytes() -> None:
    writer = Writer(utf8, ["é!"])
    assert "".join(write(writer, "un pré! et".encode())) == "un pr"
    assert writer.stopped
