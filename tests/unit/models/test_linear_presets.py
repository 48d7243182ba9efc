"""Linear attention's family by name: the sizes of the papers."""

import pytest

from attentif.models import build, resolve

VOCAB = 100


def parameters(name: str) -> int:
    config = resolve({"base": name}).with_sizes(vocab=VOCAB, classes=3)
    return sum(parameter.numel() for parameter in build(config, device="meta").parameters())


def block(width: int, hidden: int) -> int:
    """A block of 2017: four projections, two layers of a feed-forward, two norms."""
    return 4 * (width * width + width) + 2 * width * hidden + hidden + width + 4 * width


def test_linear_transformer_has_the_parameters_of_a_transformer_of_its_size() -> None:
    outside = VOCAB * 256 + 784 * 256 + VOCAB * 256 + VOCAB  # tokens, places, head
    assert parameters("linear-transformer") == 8 * block(256, 1024) + outside


def test_performer_has_the_parameters_of_a_transformer_of_its_size() -> None:
    """Its random features are drawn, not trained."""
    outside = VOCAB * 512 + 1024 * 512 + VOCAB * 512 + VOCAB + 2 * 512  # ... and the last norm
    assert parameters("performer") == 36 * block(512, 1024) + outside


def test_linformer_is_bert_base_and_one_map_over_places_a_block() -> None:
    outside = VOCAB * 768 + 512 * 768 + 2 * 768 + 768 * 768 + 768 + 3 * 768 + 3  # tokens, places, their norm, the head
    assert parameters("linformer") == 12 * (block(768, 3072) + 512 * 256) + outside


@pytest.mark.parametrize("name", ["linear-transformer", "performer", "linformer", "latent", "gated-linear"])
def test_the_tiny_ones_stay_below_a_million_parameters(name: str) -> None:
    assert parameters(f"{name}-tiny") < 1_000_000
