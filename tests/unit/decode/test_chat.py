"""A conversation: what was said is kept in the state, which is that of the whole text."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from attentif.decode import GenerateOptions, generate
from attentif.decode.chat import Conversation
from attentif.decode.session import Session, Writing
from attentif.models import Model, build, resolve
from attentif.text import TOKENIZERS, Tokenizer

LINES = ["bonjour a tous", "et toi", "oui", "encore une longue phrase", "non"]


def spread(values: dict[str, Any], vocab: int) -> Model:
    """A small model whose scores are far apart, so that rounding never decides which token is the likeliest."""
    torch.manual_seed(0)
    model = build(resolve(values).with_sizes(vocab=vocab)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return TOKENIZERS["char"](kind="char", min_count=1).fit(["abcdefghijklmnopqrstuvwxyz \n"])  # type: ignore[call-arg]


def talk(model: Model, tokenizer: Tokenizer, limit: int | None = None, **options: Any) -> tuple[Conversation, list[int]]:
    started: list[int] = []

    def start(ids: Sequence[int], room: int) -> Writing:
        started.append(len(ids))
        return Session(model, [ids], room)

    return Conversation(start, tokenizer, GenerateOptions(max_tokens=7, **options), limit), started


@pytest.mark.parametrize("preset", ["decoder-tiny", "window-mlp-tiny", "mamba-tiny"])
def test_answers_are_those_of_the_whole_text_read_anew(preset: str, tokenizer: Tokenizer) -> None:
    model = spread({"base": preset, "width": 32, "layers": 1}, tokenizer.vocab)
    conversation, started = talk(model, tokenizer)
    for line in LINES[:3]:
        before = [*conversation.text, *tokenizer.ids_batch([line + "\n"], wrap="none")[0].tolist()]
        said = "".join(conversation.answer(line))
        options = GenerateOptions(max_tokens=7, stop=("\n",))
        (whole,) = generate(model, [before], options, stop_tokens=[tokenizer.eos], decode=tokenizer.decode)
        assert said == whole.text
    assert len(started) == 1  # only what was new was read


def test_a_long_conversation_goes_on_with_its_last_half(tokenizer: Tokenizer) -> None:
    model = spread({"base": "decoder-tiny", "width": 32, "layers": 1}, tokenizer.vocab)
    conversation, started = talk(model, tokenizer, limit=40)
    for line in LINES:
        "".join(conversation.answer(line))
        assert len(conversation.text) <= 40
    assert len(started) > 1
    assert started[-1] < 40


def test_the_same_seed_draws_the_same_conversation_and_each_answer_anew(tokenizer: Tokenizer) -> None:
    model = spread({"base": "window-mlp-tiny", "width": 32}, tokenizer.vocab)
    first, second = (talk(model, tokenizer, temperature=1.0, seed=5)[0] for _ in range(2))
    answers = [["".join(conversation.answer("oui")) for _ in range(4)] for conversation in (first, second)]
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 1
