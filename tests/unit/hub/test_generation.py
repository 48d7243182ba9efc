"""How a checkpoint's maker lets it write, in our decoder's words."""

from typing import Any

import pytest

from attentif.decode import GenerateOptions
from attentif.hub.generation import format_decoding, parse_decoding


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, {}),
        ({"temperature": 0.6, "top_p": 0.9}, {}),  # nothing is drawn without do_sample
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50}),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 0}, {"temperature": 0.6, "top_p": 0.9}),
        ({"do_sample": True, "temperature": 0.0}, {}),
        ({"num_beams": 4, "length_penalty": 0.8, "early_stopping": True}, {"beams": 4, "length_penalty": 0.8, "early_stopping": True}),
        ({"num_beams": 4, "early_stopping": "never", "do_sample": True}, {"beams": 4}),
        ({"repetition_penalty": 1.2, "max_new_tokens": 32}, {"repetition_penalty": 1.2, "max_tokens": 32}),
        ({"max_length": 20}, {}),  # it counts the prompt, which is not known here
    ],
)
def test_options_are_those_that_our_decoder_has(given: dict[str, Any], options: dict[str, Any]) -> None:
    found = parse_decoding(given, two_stacks=False)
    assert found.options == options
    GenerateOptions(**options)


def test_what_is_drawn_or_searched_comes_back() -> None:
    for given in ({"do_sample": True, "temperature": 0.6, "top_k": 0}, {"num_beams": 4, "length_penalty": 0.8}, {"max_new_tokens": 32}):
        assert format_decoding(parse_decoding(given, two_stacks=False).options) == given


def test_the_decoder_of_two_stacks_has_a_beginning_and_an_end() -> None:
    given = {"decoder_start_token_id": 2, "forced_bos_token_id": 0, "bos_token_id": 0, "eos_token_id": [2, 5], "max_length": 142}
    found = parse_decoding(given, two_stacks=True)
    assert (found.start, found.ends, found.options) == ([2, 0], [2, 5], {"max_tokens": 140})  # 142 with both of the beginning
    assert parse_decoding({"bos_token_id": 3, "eos_token_id": 2}, two_stacks=True).start == [3]


def test_what_our_decoder_has_no_word_for_is_said() -> None:
    given = {"diversity_penalty": 0.5, "min_length": 0, "suppress_tokens": [], "bad_words_ids": [[1, 2]], "typical_p": 1.0}
    assert parse_decoding(given, two_stacks=True).unheard == ["diversity_penalty", "bad_words_ids"]
    assert parse_decoding({"min_length": 10}, two_stacks=False).unheard == ["min_length"]  # it counts the prompt
    assert parse_decoding({"eos_token_id": 2, "forced_eos_token_id": 3}, two_stacks=True).unheard == ["forced_eos_token_id"]
    assert parse_decoding({"num_beams": 4, "renormalize_logits": True}, two_stacks=True).unheard == [
        "renormalize_logits"
    ]  # Marian's folders
    said = {"do_sample": True, "early_stopping": "never", "repetition_penalty": 1.2}
    assert parse_decoding(said | {"num_beams": 4}, two_stacks=True).unheard == [*said]  # heard without beams, or without meaning there
    assert parse_decoding(said, two_stacks=True).unheard == []


def test_a_first_token_that_was_forced_in_words_of_the_first_days_is_heard() -> None:
    given = {"decoder_start_token_id": 2, "bos_token_id": 0, "force_bos_token_to_be_generated": True}
    assert parse_decoding(given, two_stacks=True).start == [2, 0]
    assert parse_decoding(given | {"force_bos_token_to_be_generated": False}, two_stacks=True).start == [2]


def test_what_may_not_be_written_is_heard_and_comes_back() -> None:
    given = {
        "decoder_start_token_id": 2, "forced_bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2, "min_length": 56,
        "max_length": 142, "no_repeat_ngram_size": 3, "bad_words_ids": [[7], [2]], "suppress_tokens": [9], "begin_suppress_tokens": [4, 5],
    }  # fmt: skip
    found = parse_decoding(given, two_stacks=True)
    limits = {"banned": (7, 9), "banned_first": (4, 5), "no_repeat_ngram": 3, "min_tokens": 54, "forced_end": True}
    assert (found.options, found.unheard) == ({"max_tokens": 140} | limits, [])
    GenerateOptions(**found.options)
    back = {"decoder_start_token_id": 2, "forced_bos_token_id": 0, "eos_token_id": 2} | format_decoding(found.options, ["</s>", "<s>"], 2)
    assert back["max_new_tokens"] == 141
    assert parse_decoding(back, two_stacks=True) == found
