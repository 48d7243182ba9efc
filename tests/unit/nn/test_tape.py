"""Opening, choosing, pausing a tape."""

import pytest
import torch

from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import pause_recording, record


def small() -> tuple[Model, Batch]:
    torch.manual_seed(0)
    model = build(resolve({"base": "encoder-tiny", "frontend": {"vocab": 9}, "head": {"classes": 2}})).eval()
    return model, Batch(Input(torch.randint(9, (2, 5)), Seq.from_padded([5, 3])))


def test_each_call_leaves_one_record_and_the_last_is_shown() -> None:
    model, batch = small()
    with record(model) as tape:
        model(batch)
        model(Batch(Input(torch.randint(9, (1, 4)), Seq.from_padded([4]))))
    assert list(tape) == ["encoder.blocks.0.attn", "encoder.blocks.1.attn"]
    assert tape.maps("encoder.blocks.0.attn").shape == (1, 4, 4, 4)
    assert tape.maps("encoder.blocks.0.attn", call=0).shape == (2, 4, 5, 5)


def test_a_path_that_was_not_recorded_is_named_with_those_that_were() -> None:
    model, batch = small()
    with record(model, layers=[1]) as tape:
        model(batch)
    with pytest.raises(KeyError, match=r"blocks.0.attn.*recorded: encoder.blocks.1.attn"):
        tape.maps("encoder.blocks.0.attn")


def test_nothing_is_recorded_while_paused_nor_of_another_model() -> None:
    (model, batch), (other, _) = small(), small()
    with record(model) as tape:
        with pause_recording():
            model(batch)
        other(batch)
    assert not list(tape)


def test_the_innermost_tape_listens_and_the_outer_one_comes_back() -> None:
    model, batch = small()
    with record(model) as outer:
        with record(model) as inner:
            model(batch)
        assert not list(outer)
        assert list(inner)
        model(batch)
    assert list(outer)


def test_a_tape_closes_when_something_goes_wrong() -> None:
    model, batch = small()
    with pytest.raises(RuntimeError, match="oops"), record(model) as tape:
        raise RuntimeError("oops")
    model(batch)
    assert not list(tape)


def test_records_keep_no_history() -> None:
    model, batch = small()
    with record(model) as tape:
        model.train()(batch)[0].sum().backward()
    assert not tape.maps("encoder.blocks.0.attn").requires_grad


def test_maps_of_a_learned_bias_keep_no_history_either() -> None:
    model = build(
        resolve(
            {
                "base": "encoder-tiny",
                "frontend": {"vocab": 9},
                "head": {"classes": 2},
                "encoder": {"bias": {"kind": "relative", "heads": 4}},
            }
        )
    )
    with record(model) as tape:
        model(small()[1])
    assert not tape.maps("encoder.blocks.0.attn").requires_grad
