"""Presets called after published models have as many weights as those."""

import pytest

from attentif.models import build, resolve

SIZES = {  # vocabulary, and parameters in millions as the published checkpoints have them
    "llama-2-7b": (32_000, 6_738.4),
    "llama-3.2-1b": (128_256, 1_235.8),
    "mistral-7b": (32_000, 7_241.7),
    "mixtral-8x7b": (32_000, 46_702.8),
    "qwen2.5-0.5b": (151_936, 494.0),
    "qwen3-0.6b": (151_936, 596.0),
    "deepseek-v2-lite": (102_400, 15_706.5),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_preset_has_the_published_number_of_weights(name: str) -> None:
    vocab, millions = SIZES[name]
    model = build(resolve({"base": name}).with_sizes(vocab=vocab), device="meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(1e6 * millions, abs=1e5)
