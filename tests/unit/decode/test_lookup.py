"""Prompt lookup writes what plain steps write, in fewer readings of the weights where a text repeats itself."""

import pytest
import torch
from torch.testing import assert_close

from attentif.decode import GenerateOptions, generate
from attentif.decode.lookup import PAUSE, TRIES, PromptLookup
from attentif.decode.session import Session
from attentif.models import Model

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@torch.no_grad()
def lookup(model: Model, prompt: list[int], tokens: int) -> PromptLookup:
    session = Session(model, [prompt], tokens)
    assert PromptLookup.suits(session)
    return PromptLookup(session, prompt)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "seed": 3}, {"repetition_penalty": 1.3}])
def test_the_same_tokens_as_without_it(decoder: Model, options: dict[str, float]) -> None:
    found, plain = (
        generate(decoder, [PROMPT], GenerateOptions.model_validate({"max_tokens": 60, "lookup": lookup} | options))[0].tokens
        for lookup in (True, False)
    )
    assert found == plain


@torch.no_grad()
def test_every_right_guess_saves_a_reading_and_changes_no_logits(decoder: Model) -> None:
    text = [7, 8, 9, 10, 11, 12] * 6
    session, ahead = Session(decoder, [PROMPT], 40), lookup(decoder, PROMPT, 40)
    for token in text:
        session.read(torch.tensor([token]))
        ahead.read(torch.tensor([token]))
        assert_close(ahead.logits, session.logits, rtol=1e-5, atol=1e-5)
    assert ahead.steps == len(text)
    assert ahead.passes + ahead.taken == len(text)
    assert ahead.passes < 16  # six before anything repeats itself, then one for eight tokens
    ahead.extend([1, 2, 3])
    session.extend([1, 2, 3])
    assert_close(ahead.logits, session.logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_guesses_pause_while_they_are_wrong(decoder: Model) -> None:
    ahead = lookup(decoder, [1, 2], 200)
    text = [number for other in range(3, 20) for number in (1, 2, other)]  # 1, 2 is followed by something else each time
    for token in text:
        ahead.read(torch.tensor([token]))
    assert ahead.tries <= TRIES
    assert ahead.pause >= 2 * PAUSE


@torch.no_grad()
def test_what_cannot_read_ahead_writes_as_before(short_decoder: Model) -> None:
    assert not PromptLookup.suits(Session(short_decoder, [[1], [2]], 4))
    found = generate(short_decoder, [[1, 2, 3]], GenerateOptions(max_tokens=20))[0]  # it holds 12 tokens
    assert (len(found.tokens), found.finish) == (9, "limit")


@torch.no_grad()
def test_a_long_prompt_is_read_in_chunks(decoder: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Session(decoder, [PROMPT], 2).logits
    monkeypatch.setattr("attentif.decode.session.CHUNK", 4)
    assert_close(Session(decoder, [PROMPT], 2).logits, whole, rtol=1e-4, atol=1e-4)
