"""Rows that join and leave between steps, against each row alone read from the beginning."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.decode.batch import DecodingBatch
from attentif.errors import UsageError
from attentif.inspect import make_batch
from attentif.models import Batch, Input, Model, build, resolve

# float32: sums of a few dozen terms in two orders, through a handful of layers
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def spread(values: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    model = build(resolve(values).with_sizes(vocab=23)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def inputs(rows: list[list[int]]) -> Input:
    return make_batch(rows).source


@torch.no_grad()
def alone(model: Model, ids: list[int], source: list[int] | None = None) -> Tensor:
    text = inputs([ids])
    return model(Batch(text) if source is None else Batch(inputs([source]), text))[0][0, -1]


def read(batch: DecodingBatch, row: int, chunk: int | None = None) -> Tensor:
    while (logits := batch.prefill(row, chunk)) is None:
        pass
    return logits


def test_rows_that_join_and_leave_equal_each_row_alone(decoder: Model) -> None:
    batch = DecodingBatch(decoder, 40)
    texts = {batch.add(ids): list(ids) for ids in ([3, 1, 4, 1, 5, 9, 2], [6])}
    for row, text in texts.items():
        assert_close(read(batch, row, 3), alone(decoder, text), **CLOSE)
    for number in range(9):
        if number == 3:
            row = batch.add([5, 3, 5])
            texts[row] = [5, 3, 5]
            read(batch, row)
        if number == 6:
            batch.remove(0)
            del texts[0]
        tokens = {row: (7 * number + row) % 11 for row in texts}
        found = batch.step(tokens)
        assert list(found) == list(texts)
        for row, text in texts.items():
            text.append(tokens[row])
            assert_close(found[row], alone(decoder, text), **CLOSE)
            assert batch.length(row) == len(text)
    assert len(batch) == 2


def test_a_step_of_some_rows_leaves_the_others_where_they_are(decoder: Model) -> None:
    batch = DecodingBatch(decoder, 40)
    one, other = batch.add([3, 1, 4]), batch.add([6, 2])
    for row in (one, other):
        read(batch, row)
    batch.step({one: 5})
    found = batch.step({other: 8, one: 9})
    assert_close(found[one], alone(decoder, [3, 1, 4, 5, 9]), **CLOSE)
    assert_close(found[other], alone(decoder, [6, 2, 8]), **CLOSE)


def test_a_fork_goes_on_apart_from_its_row(decoder: Model) -> None:
    batch = DecodingBatch(decoder, 40)
    row = batch.add([3, 1, 4])
    read(batch, row)
    batch.step({row: 1})
    twin = batch.fork(row)
    found = batch.step({row: 5, twin: 9})
    assert_close(found[row], alone(decoder, [3, 1, 4, 1, 5]), **CLOSE)
    assert_close(found[twin], alone(decoder, [3, 1, 4, 1, 9]), **CLOSE)


def test_rows_of_an_encoder_decoder_read_sources_of_their_own(translator: Model) -> None:
    batch = DecodingBatch(translator, 20)
    sources = [[7, 2, 9], [4, 4, 4, 4, 8, 1], [5, 6, 1]]
    rows = [batch.add([1], inputs([source])) for source in sources]
    for row in rows:
        read(batch, row)
    found = batch.step({row: 3 + row for row in rows})
    for row, source in zip(rows, sources, strict=True):
        assert_close(found[row], alone(translator, [1, 3 + row], source), **CLOSE)


def test_what_a_row_cannot_hold_is_refused(decoder: Model) -> None:
    batch = DecodingBatch(decoder, 4)
    with pytest.raises(UsageError, match="holds 4"):
        batch.add([1] * 5)
    row = batch.add([1, 2, 3])
    with pytest.raises(UsageError, match="prefill"):
        batch.step({row: 1})
    read(batch, row)
    with pytest.raises(UsageError, match="has been read"):
        batch.prefill(row)
    batch.step({row: 1})
    with pytest.raises(UsageError, match="remove it"):
        batch.step({row: 1})


@pytest.mark.parametrize("base", ["decoder-tiny", "lstm-tiny"])
def test_a_prompt_that_begins_as_a_text_before_is_read_from_where_they_part(base: str) -> None:
    model = spread({"base": base, "width": 32, "layers": 2})
    batch, history = DecodingBatch(model, 60), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    first = batch.add(history)
    read(batch, first)
    batch.step({first: 8})
    batch.remove(first)
    again, other = [*history, 8, 9, 7], [*history[:9], 2, 2]
    row, parted = batch.add(again), batch.add(other)
    assert batch.length(row) == 12  # all that was read
    assert batch.length(parted) == (9 if base == "decoder-tiny" else 0)  # a state of fixed size cannot go back
    assert_close(read(batch, row), alone(model, again), **CLOSE)
    assert_close(read(batch, parted), alone(model, other), **CLOSE)
    found = batch.step({row: 4, parted: 6})
    assert_close(found[row], alone(model, [*again, 4]), **CLOSE)
    assert_close(found[parted], alone(model, [*other, 6]), **CLOSE)


def test_the_last_token_of_a_prompt_is_always_read(decoder: Model) -> None:
    batch, text = DecodingBatch(decoder, 40), [3, 1, 4, 1, 5, 9, 2, 6, 5]
    for _ in range(2):
        row = batch.add(text)
        assert_close(read(batch, row), alone(decoder, text), **CLOSE)
        batch.remove(row)


def test_no_text_is_kept_where_none_is_asked_for(decoder: Model) -> None:
    batch = DecodingBatch(decoder, 40, prefixes=0)
    row = batch.add([1] * 20)
    read(batch, row)
    batch.remove(row)
    assert batch.length(batch.add([1] * 20)) == 0
