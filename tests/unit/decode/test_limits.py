"""What may not be written: every rule against the words that define it."""

from itertools import pairwise

import pytest
import torch

from attentif.decode import GenerateOptions, beam_search, generate
from attentif.decode.limits import NEVER, Limiter, Limits, find_repeats
from attentif.errors import UsageError
from attentif.models import Model

STOP = 2


def allowed(limits: Limits, texts: list[list[int]], written: int, max_tokens: int = 10) -> list[set[int]]:
    """Tokens of eight that may follow each text."""
    found = Limiter(limits, max_tokens, {STOP}, 8)(torch.zeros(len(texts), 8), texts, written)
    return [{token for token, score in enumerate(row) if score > NEVER} for row in found.tolist()]


def test_nothing_asked_for_leaves_the_scores_as_they_are() -> None:
    scores = torch.randn(2, 8)
    assert Limiter(Limits(), 10, {STOP}, 8)(scores, [[1], [2]], 0) is scores


def test_banned_tokens_are_never_written_and_some_not_first() -> None:
    limits = Limits(banned=(1, 7), banned_first=(3,))
    assert allowed(limits, [[0]], 0) == [{0, 2, 4, 5, 6}]
    assert allowed(limits, [[0, 0]], 1) == [{0, 2, 3, 4, 5, 6}]


def test_no_run_of_tokens_stands_twice() -> None:
    assert find_repeats([1, 2, 3, 1, 2], 3) == {3}
    assert find_repeats([1, 2, 1, 3, 1], 2) == {2, 3}
    assert find_repeats([1, 2], 1) == {1, 2}
    assert find_repeats([1], 3) == set()
    assert allowed(Limits(no_repeat_ngram=2), [[1, 2, 1, 3, 1], [5, 6, 7, 5, 4]], 3) == [{0, 1, 4, 5, 6, 7}, {*range(8)}]


def test_no_text_ends_before_its_time_and_a_cut_one_ends_like_the_others() -> None:
    assert STOP not in allowed(Limits(min_tokens=3), [[0]], 2)[0]
    assert STOP in allowed(Limits(min_tokens=3), [[0]], 3)[0]
    assert allowed(Limits(forced_end=True), [[0], [1]], 9) == [{STOP}, {STOP}]
    assert len(allowed(Limits(forced_end=True), [[0]], 8)[0]) == 8


def test_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no token 8"):
        Limiter(Limits(banned=(8,)), 10, {STOP}, 8)


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_keep_to_the_limits_whatever_stands_beside_them(decoder: Model, beams: int) -> None:
    prompts = [[3, 1, 4, 1, 5], [9, 2, 6]]
    options = GenerateOptions(max_tokens=24, beams=beams, no_repeat_ngram=2, banned=(0, 1), min_tokens=20, forced_end=True)
    together = generate(decoder, prompts, options, stop_tokens={STOP})
    for prompt, row in zip(prompts, together, strict=True):
        text = [*prompt, *row.tokens]
        pairs = list(pairwise(text))
        new = pairs[len(prompt) - 1 :]
        assert len(new) == len(set(new) - set(pairs[: len(prompt) - 1]))
        assert not {0, 1} & {*row.tokens}
        assert 20 <= len(row.tokens) < 24
        assert row.finish == "token"
        assert generate(decoder, [prompt], options, stop_tokens={STOP})[0].tokens == row.tokens


def test_a_search_where_nothing_is_allowed_goes_on_all_the_same(five_tokens: Model) -> None:
    options = GenerateOptions(max_tokens=3, beams=2, banned=(0, 1, 2, 3, 4))
    assert len(beam_search(five_tokens, [[1]], options)[0][0].tokens) == 3
