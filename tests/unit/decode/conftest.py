"""Small models whose scores are far apart, so that rounding never decides which token is the likeliest."""

from typing import Any

import pytest
import torch

from attentif.models import Model, build, resolve

VOCAB = 23


def spread(values: dict[str, Any], vocab: int = VOCAB, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    model = build(resolve(values).with_sizes(vocab=vocab)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def blocks(heads: int = 4, hidden: int = 64) -> dict[str, Any]:
    return {"attn": {"mixer": {"heads": heads}}, "ffn": {"mixer": {"hidden": hidden}}}


@pytest.fixture
def decoder() -> Model:
    """Rotary positions: no longest text."""
    return spread({"base": "decoder-tiny", "width": 32, "layers": 2})


@pytest.fixture
def wide_decoder() -> Model:
    """Wide enough for its products to be shared out over threads."""
    return spread({"base": "decoder-tiny", "width": 512, "layers": 1})


@pytest.fixture
def short_decoder() -> Model:
    """Learned positions: a text of 12 tokens at most."""
    position = {"kind": "learned", "max_len": 12}
    return spread(
        {"base": "gpt2", "width": 32, "layers": 2, "frontend": {"vocab": VOCAB, "position": position}, "decoder": {"block": blocks()}}
    )


def encoder_decoder(vocab: int) -> Model:
    block = blocks() | {"cross": {"mixer": {"heads": 4}}}
    return spread({"base": "transformer-tiny", "width": 32, "encoder": {"block": blocks()}, "decoder": {"block": block}}, vocab)


@pytest.fixture
def translator() -> Model:
    return encoder_decoder(VOCAB)


@pytest.fixture
def five_tokens() -> Model:
    """A decoder with a vocabulary small enough to try every text."""
    return spread({"base": "decoder-tiny", "width": 16, "layers": 1}, 5)


@pytest.fixture
def five_token_translator() -> Model:
    return encoder_decoder(5)
