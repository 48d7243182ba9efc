"""Recurrent systems by name: the sizes of their papers, and cells that stand alone."""

import pytest

from attentif.models import build, resolve
from attentif.models.model import Model


def built(name: str, vocab: int = 10_000) -> Model:
    return build(resolve({"base": name}).with_sizes(vocab=vocab, classes=3), device="meta")


def parameters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_lstm_has_the_size_of_zarembas_medium_one() -> None:
    """On Penn Treebank's 10,000 words; 20 million is how the paper's successors quote it."""
    assert parameters(built("lstm")) == 19_775_200
    assert parameters(built("lstm")) == pytest.approx(20e6, rel=0.02)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("rnn", 400 * 400 * 2 + 400),
        ("gru", 2 * (6 * 650 * 650 + 4 * 650)),
        ("peephole-lstm", 8 * 1000 * 1000 + 4 * 1000 + 3 * 1000),
        ("bi-lstm", 2 * (4 * 512 * (1024 + 512) + 4 * 512)),
    ],
)
def test_a_stack_is_nothing_but_its_cells(name: str, count: int) -> None:
    model = built(name)
    assert sum(parameter.numel() for parameter in (model.decoder or model.encoder).parameters()) == count


@pytest.mark.parametrize("name", ["rnn", "lstm", "peephole-lstm", "gru", "bi-lstm"])
@pytest.mark.parametrize("size", ["", "-tiny"])
def test_cells_have_neither_residual_nor_norm(name: str, size: str) -> None:
    model = built(name + size)
    stack = model.decoder or model.encoder
    assert all(not sublayer.residual and sublayer.placement == "none" for _, sublayer in stack.sublayers())
    assert not [key for key, _ in stack.named_parameters() if "norm" in key]
