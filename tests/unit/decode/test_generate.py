"""Continuations against the model run again from the beginning for every token, and rows against themselves alone."""

from collections.abc import Sequence

import pytest
import torch
from torch.testing import assert_close

from attentif.decode import GenerateOptions, generate, stream
from attentif.errors import UsageError
from attentif.inspect import make_batch
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq

PROMPTS = [[3, 1, 4, 1, 5, 9, 2], [6], [5, 3, 5], [8, 9, 7, 9]]
SOURCES = [[7, 2, 9], [4, 4, 4, 4, 8, 1], [5], [3, 3]]
SAMPLED = GenerateOptions(max_tokens=20, temperature=1.5, top_k=10, seed=11)


def letters(tokens: Sequence[int]) -> str:
    return "".join(chr(ord("a") + token) for token in tokens)


def inputs(rows: Sequence[Sequence[int]]) -> Input:
    return make_batch(rows).source


@torch.no_grad()
def again(model: Model, prompt: list[int], tokens: int, source: list[int] | None = None) -> list[int]:
    """Greedy without any state."""
    written: list[int] = []
    for _ in range(tokens):
        text = inputs([prompt + written])
        logits, _ = model(Batch(text) if source is None else Batch(inputs([source]), text))
        written.append(int(logits[0, -1].argmax()))
    return written


def test_greedy_takes_the_likeliest_token_of_a_model_that_reads_all_again(decoder: Model) -> None:
    found = generate(decoder, PROMPTS, GenerateOptions(max_tokens=16))
    assert [row.tokens for row in found] == [again(decoder, prompt, 16) for prompt in PROMPTS]
    assert {row.finish for row in found} == {"length"}
    assert len({tuple(row.tokens) for row in found}) > 1


@pytest.mark.parametrize("rows", [1, 4])
def test_products_shared_out_over_threads_write_the_same(wide_decoder: Model, rows: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = generate(wide_decoder, PROMPTS[:rows], GenerateOptions(max_tokens=12))
        assert [row.tokens for row in found] == [again(wide_decoder, prompt, 12) for prompt in PROMPTS[:rows]]
    finally:
        torch.set_num_threads(before)


def test_an_encoder_decoder_writes_from_each_source(translator: Model) -> None:
    prompts = [[1], [1, 5], [1], [1]]
    found = generate(translator, prompts, GenerateOptions(max_tokens=10), source=inputs(SOURCES))
    assert [row.tokens for row in found] == [again(translator, *pair) for pair in zip(prompts, [10] * 4, SOURCES, strict=True)]


def test_packed_sources_serve_as_well(translator: Model) -> None:
    flat = Input(torch.tensor([token for row in SOURCES for token in row]), Seq.from_packed([len(row) for row in SOURCES]))
    padded, packed = (generate(translator, [[1]] * 4, GenerateOptions(max_tokens=10), source=source) for source in (inputs(SOURCES), flat))
    assert [row.tokens for row in padded] == [row.tokens for row in packed]


def test_rows_finish_one_by_one_without_disturbing_the_others(decoder: Model) -> None:
    """Stop tokens end the rows at different steps; the rest go on as they would alone."""
    options = GenerateOptions(max_tokens=24)
    whole = generate(decoder, PROMPTS, options)
    stops = {whole[0].tokens[3], whole[2].tokens[9]}
    together = generate(decoder, PROMPTS, options, stop_tokens=stops)
    alone = [generate(decoder, [prompt], options, stop_tokens=stops)[0] for prompt in PROMPTS]
    assert [(row.tokens, row.finish) for row in together] == [(row.tokens, row.finish) for row in alone]
    assert len({len(row.tokens) for row in together}) > 1
    assert "token" in {row.finish for row in together}
    assert not any(stops & set(row.tokens) for row in together)


def test_a_row_draws_the_same_whatever_the_other_rows_are(decoder: Model) -> None:
    together = generate(decoder, PROMPTS, SAMPLED)
    others = generate(decoder, [[1, 2, 3, 4], *PROMPTS[1:3], [2]], SAMPLED, stop_tokens={4})
    fewer = generate(decoder, PROMPTS[:3], SAMPLED)
    for row in (1, 2):
        written = together[row].tokens
        assert written == fewer[row].tokens
        assert others[row].tokens == (written[: written.index(4)] if 4 in written else written)


def test_a_seed_repeats_itself_and_another_does_not(decoder: Model) -> None:
    first, second, other = (generate(decoder, PROMPTS, SAMPLED.replace(seed=seed)) for seed in (1, 1, 2))
    assert [row.tokens for row in first] == [row.tokens for row in second] != [row.tokens for row in other]


def test_rows_with_the_same_prompt_draw_apart(decoder: Model) -> None:
    assert len({tuple(row.tokens) for row in generate(decoder, [[1, 2]] * 4, SAMPLED)}) == 4


def test_without_a_seed_every_call_differs(decoder: Model) -> None:
    free = SAMPLED.replace(seed=None)
    assert generate(decoder, [[1, 2]], free)[0].tokens != generate(decoder, [[1, 2]], free)[0].tokens


def test_drawing_leaves_the_global_generator_alone(decoder: Model) -> None:
    before = torch.get_rng_state()
    generate(decoder, PROMPTS, SAMPLED)
    assert torch.equal(before, torch.get_rng_state())


@torch.no_grad()
def test_the_penalty_counts_the_prompt_and_what_was_written(decoder: Model) -> None:
    text = [3, 1, 4]
    for _ in range(12):
        logits, _ = decoder(Batch(inputs([text])))
        scores = logits[0, -1].tolist()
        for token in set(text):
            scores[token] *= 1.5 if scores[token] < 0 else 1 / 1.5
        text.append(max(range(len(scores)), key=scores.__getitem__))
    penalised, free = (generate(decoder, [[3, 1, 4]], GenerateOptions(max_tokens=12, repetition_penalty=p))[0].tokens for p in (1.5, 1.0))
    assert penalised == text[3:] != free


def test_a_stop_text_ends_a_row_and_is_not_in_its_text(decoder: Model) -> None:
    whole = generate(decoder, PROMPTS[:1], GenerateOptions(max_tokens=16), decode=letters)[0]
    assert whole.text == letters(whole.tokens)
    stop = whole.text[5:8]
    cut = generate(decoder, PROMPTS[:1], GenerateOptions(max_tokens=16, stop=(stop,)), decode=letters)[0]
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish == "text"
    assert cut.tokens == whole.tokens[: whole.text.index(stop) + 3]


def test_streamed_pieces_make_up_the_text_and_never_show_the_stop(decoder: Model) -> None:
    whole = generate(decoder, PROMPTS[:1], GenerateOptions(max_tokens=16), decode=letters)[0].text
    assert whole is not None
    options = GenerateOptions(max_tokens=16, stop=(whole[8:11], "zzz"))
    tokens = list(stream(decoder, PROMPTS[:1], options, decode=letters))
    assert "".join(token.text for token in tokens) == whole[: whole.index(whole[8:11])]
    assert [token.finish for token in tokens[:-1]] == [None] * (len(tokens) - 1)


def test_tokens_are_streamed_before_the_end(decoder: Model) -> None:
    pieces = stream(decoder, PROMPTS, GenerateOptions(max_tokens=1000))
    assert [next(pieces).row for _ in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_text_that_fills_the_model_ends_politely(short_decoder: Model) -> None:
    prompts = [[1, 2, 3], list(range(11)), [4]]
    found = generate(short_decoder, prompts, GenerateOptions(max_tokens=10))
    assert [(len(row.tokens), row.finish) for row in found] == [(9, "limit"), (1, "limit"), (10, "length")]
    assert found[0].tokens == again(short_decoder, prompts[0], 9)


def test_probabilities_are_those_of_the_model_itself(decoder: Model) -> None:
    prompt = PROMPTS[0]
    found = generate(decoder, [prompt], SAMPLED, alternatives=4)[0]
    text = inputs([prompt + found.tokens[:-1]])
    with torch.no_grad():
        logits, _ = decoder(Batch(text))
    expected = logits[0, len(prompt) - 1 :].log_softmax(-1)
    own = [float(row[token]) for row, token in zip(expected, found.tokens, strict=True)]
    assert_close([step.log_prob for step in found.steps], own, rtol=1e-4, atol=1e-4)
    assert_close(found.log_prob, sum(own), rtol=1e-4, atol=1e-4)
    for step, row in zip(found.steps, expected, strict=True):
        top = row.topk(4)
        assert [token for token, _ in step.alternatives] == top.indices.tolist()
        assert_close([value for _, value in step.alternatives], top.values.tolist(), rtol=1e-4, atol=1e-4)


def test_probabilities_are_left_out_unless_asked_for(decoder: Model) -> None:
    found = generate(decoder, [[1]], GenerateOptions(max_tokens=2))[0]
    assert found.log_prob is None
    assert [(step.log_prob, step.alternatives) for step in found.steps] == [(None, ())] * 2


def test_dropout_is_off_while_writing_and_the_model_is_left_as_it_was(decoder: Model) -> None:
    expected = generate(decoder, PROMPTS, GenerateOptions(max_tokens=8))
    decoder.train()
    assert generate(decoder, PROMPTS, GenerateOptions(max_tokens=8)) == expected
    assert decoder.training
    pieces = stream(decoder, PROMPTS)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]  # a generator, seen as an iterator
    assert decoder.training


def test_no_prompt_gives_no_text(decoder: Model) -> None:
    assert generate(decoder, []) == []


def test_what_cannot_be_continued_is_refused_at_once(decoder: Model, short_decoder: Model, translator: Model) -> None:
    with pytest.raises(UsageError, match="prompt 2 is empty"):
        stream(decoder, [[1], []])
    with pytest.raises(UsageError, match="prompt 1 has 12 tokens"):
        stream(short_decoder, [[1] * 12])
    with pytest.raises(UsageError, match="from a source"):
        stream(translator, [[1]])
    with pytest.raises(UsageError, match="no encoder"):
        stream(decoder, [[1]], source=inputs([[1]]))
    with pytest.raises(UsageError, match="4 sources for 1 prompts"):
        stream(translator, [[1]], source=inputs(SOURCES))
    with pytest.raises(UsageError, match="decode"):
        stream(decoder, [[1]], GenerateOptions(stop=("x",)))
    with pytest.raises(UsageError, match="streamed"):
        stream(decoder, [[1]], GenerateOptions(beams=2))
    reader = build(resolve({"base": "encoder-tiny"}).with_sizes(vocab=9, classes=2))
    with pytest.raises(UsageError, match="writes none"):
        stream(reader, [[1]])
