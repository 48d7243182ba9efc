"""Beam search against looking at every text there is, and against greedy search."""

from collections.abc import Iterator

import pytest
import torch
from torch.testing import assert_close

from attentif.decode import GenerateOptions, Hypothesis, beam_search, generate, search_trees
from attentif.errors import UsageError
from attentif.inspect import make_batch
from attentif.models import Batch, Input, Model

STOP = 2
VOCAB = 5
PROMPTS = [[3, 1, 4, 1, 0], [1], [0, 3, 0]]
SOURCES = [[3, 4, 1], [1, 1, 1, 1, 0, 3], [4]]


def inputs(rows: list[list[int]]) -> Input:
    return make_batch(rows).source


@torch.no_grad()
def log_probs(model: Model, text: list[int], source: list[int] | None) -> list[float]:
    logits, _ = model(Batch(inputs([text])) if source is None else Batch(inputs([source]), inputs([text])))
    return logits[0, -1].log_softmax(-1).tolist()


def every_text(model: Model, prompt: list[int], source: list[int] | None, room: int, before: tuple[int, ...] = ()) -> Iterator[Hypothesis]:
    """All continuations that end with the stop token or after `room` tokens; the score is left to the caller."""
    for token, log_prob in enumerate(log_probs(model, [*prompt, *before], source)):
        text = (*before, token)
        if token == STOP or len(text) == room:
            yield Hypothesis([t for t in text if t != STOP], 0.0, log_prob, "token" if token == STOP else "length")
        else:
            for rest in every_text(model, prompt, source, room, text):
                yield Hypothesis(rest.tokens, 0.0, log_prob + rest.log_prob, rest.finish)


def best_of(model: Model, prompt: list[int], source: list[int] | None, room: int, alpha: float) -> list[Hypothesis]:
    def scored(text: Hypothesis) -> Hypothesis:
        length = len(text.tokens) + (text.finish == "token")
        return Hypothesis(text.tokens, text.log_prob / length**alpha, text.log_prob, text.finish)

    return sorted(map(scored, every_text(model, prompt, source, room)), key=lambda text: -text.score)


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(text.tokens, text.finish) for text in found] == [(text.tokens, text.finish) for text in expected]
    assert_close([text.score for text in found], [text.score for text in expected], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, -0.5])
def test_with_enough_beams_the_search_is_exhaustive(five_tokens: Model, alpha: float) -> None:
    room = 4
    options = GenerateOptions(max_tokens=room, beams=VOCAB**room, length_penalty=alpha)
    for found, prompt in zip(beam_search(five_tokens, PROMPTS, options, stop_tokens={STOP}), PROMPTS, strict=True):
        same(found[:20], best_of(five_tokens, prompt, None, room, alpha)[:20])


def test_with_enough_beams_the_search_from_a_source_is_exhaustive(five_token_translator: Model) -> None:
    options = GenerateOptions(max_tokens=3, beams=VOCAB**3)
    found = beam_search(five_token_translator, [[1]] * 3, options, source=inputs(SOURCES), stop_tokens={STOP})
    for texts, source in zip(found, SOURCES, strict=True):
        same(texts[:20], best_of(five_token_translator, [1], source, 3, 1.0)[:20])


def test_one_beam_is_greedy_search(decoder: Model) -> None:
    options = GenerateOptions(max_tokens=12)
    greedy = generate(decoder, PROMPTS, options, stop_tokens={STOP})
    assert [texts[0].tokens for texts in beam_search(decoder, PROMPTS, options, stop_tokens={STOP})] == [row.tokens for row in greedy]


@pytest.mark.parametrize("early", [False, True])
def test_prompts_side_by_side_are_searched_as_if_alone(decoder: Model, early: bool) -> None:
    options = GenerateOptions(max_tokens=9, beams=3, early_stopping=early)
    together = beam_search(decoder, PROMPTS, options, stop_tokens={STOP, 7, 11})
    for found, prompt in zip(together, PROMPTS, strict=True):
        same(found, beam_search(decoder, [prompt], options, stop_tokens={STOP, 7, 11})[0])


def test_sources_side_by_side_are_searched_as_if_alone(translator: Model) -> None:
    options = GenerateOptions(max_tokens=9, beams=4)
    together = beam_search(translator, [[1]] * 3, options, source=inputs(SOURCES), stop_tokens={STOP, 7})
    for found, source in zip(together, SOURCES, strict=True):
        same(found, beam_search(translator, [[1]], options, source=inputs([source]), stop_tokens={STOP, 7})[0])


def test_more_beams_find_no_worse_a_text_here(decoder: Model) -> None:
    best = [beam_search(decoder, PROMPTS[:1], GenerateOptions(max_tokens=8, beams=beams))[0][0].log_prob for beams in (1, 4, 16)]
    assert best == sorted(best)
    assert best[-1] > best[0]


def test_early_stopping_takes_the_first_complete_texts(five_tokens: Model) -> None:
    patient = GenerateOptions(max_tokens=12, beams=3, length_penalty=1.0)
    sizes = []
    for options in (patient, patient.replace(early_stopping=True)):
        (search,) = search_trees(five_tokens, PROMPTS[:1], options, stop_tokens={STOP, 0, 4}, tree=True)
        assert search.tree is not None
        sizes.append(len(search.tree))
        assert len(search.complete) == 3
    assert sizes[1] < sizes[0]


def test_a_text_that_fills_the_model_is_complete(short_decoder: Model) -> None:
    found = beam_search(short_decoder, [[1, 2, 3], [4]], GenerateOptions(max_tokens=10, beams=3))
    assert [(len(texts[0].tokens), texts[0].finish) for texts in found] == [(9, "limit"), (10, "length")]


def test_the_tree_holds_every_text_found(decoder: Model) -> None:
    options = GenerateOptions(max_tokens=5, beams=3)
    (search,) = search_trees(decoder, PROMPTS[:1], options, stop_tokens={STOP}, tree=True)
    assert search.tree is not None
    paths = []
    for node in search.tree:
        assert node.parent < len(search.tree)
        if node.fate == "complete":
            path, at = [node.token], node.parent
            while at >= 0:
                assert search.tree[at].fate == "kept"
                assert search.tree[at].depth == node.depth - len(path)
                path, at = [search.tree[at].token, *path], search.tree[at].parent
            paths.append([token for token in path if token != STOP])
    assert all(text.tokens in paths for text in search.complete)
    assert max(sum(node.fate == "kept" and node.depth == depth for node in search.tree) for depth in range(1, 6)) == 3


def test_generate_gives_the_best_text(decoder: Model) -> None:
    options = GenerateOptions(max_tokens=6, beams=3)
    best = [texts[0] for texts in beam_search(decoder, PROMPTS, options)]
    found = generate(decoder, PROMPTS, options, decode=lambda tokens: " ".join(map(str, tokens)))
    assert [row.tokens for row in found] == [text.tokens for text in best]
    assert [row.text for row in found] == [" ".join(map(str, text.tokens)) for text in best]
    with pytest.raises(UsageError, match="tree"):
        generate(decoder, PROMPTS, options, alternatives=3)


def test_beams_share_the_memory_of_their_source(translator: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from attentif.nn.mixers.cross import MemoryState

    seen = []
    select = MemoryState.select

    def watched(state: MemoryState, rows: torch.Tensor) -> MemoryState:
        chosen = select(state, rows)
        seen.append((len(chosen.k), chosen.fanout, chosen.k is state.k))
        return chosen

    monkeypatch.setattr(MemoryState, "select", watched)
    beam_search(translator, [[1]] * 3, GenerateOptions(max_tokens=4, beams=4), source=inputs(SOURCES))
    assert set(seen) == {(3, 4, True)}
