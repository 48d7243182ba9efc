"""What a model keeps while it writes, and that writing can be timed."""

import pytest
import torch

from attentif.lab.compare import decoding
from attentif.models import Model, build
from attentif.models.config import resolve

SIZES = {"vocab": 20, "target_vocab": 20, "classes": 2}


def made(preset: str) -> Model:
    torch.manual_seed(0)
    return build(resolve({"base": preset, "layers": 1}).with_sizes(**SIZES))


def test_attention_keeps_every_token_and_a_recurrence_does_not() -> None:
    growing, fixed = made("decoder-tiny"), made("lstm-tiny")
    assert decoding.state_bytes(growing, 200) == pytest.approx(2 * (decoding.state_bytes(growing, 100) or 0), rel=0.1)
    assert decoding.state_bytes(fixed, 200) == decoding.state_bytes(fixed, 100)


@pytest.mark.parametrize("preset", ["transformer-tiny", "sutskever-2014-tiny"])
def test_an_encoder_decoder_writes_from_a_source(preset: str) -> None:
    model = made(preset)
    assert decoding.state_bytes(model, 50)
    assert decoding._once(model.eval(), 4) > 0


def test_a_model_that_only_reads_keeps_nothing() -> None:
    assert decoding.state_bytes(made("encoder-tiny"), 50) is None
