"""The recurrent encoder-decoders have the sizes of their papers, and `memorizing-tiny` its memory."""

import pytest

from attentif.models import Model, build, preset_names, resolve

FAMILY = ["sutskever-2014", "bahdanau-2015", "luong-2015-general", "luong-2015-dot", "luong-2015-location"]


def sized(name: str, vocab: int, target_vocab: int | None = None) -> Model:
    return build(resolve({"base": name}).with_sizes(vocab=vocab, target_vocab=target_vocab), device="meta")


def parameters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_all_of_them_are_there_with_a_size_for_a_laptop() -> None:
    assert set(preset_names()) >= {*FAMILY, *(f"{name}-tiny" for name in FAMILY), "memorizing-tiny"}
    for name in FAMILY:
        assert parameters(sized(f"{name}-tiny", 400)) < 1_500_000


def test_sutskever_has_the_384_million_parameters_of_the_paper_64_million_of_them_recurrent() -> None:
    """Section 3.4: 160,000 source and 80,000 target words; "384M parameters of which 64M are pure recurrent connections"."""
    model = sized("sutskever-2014", 160_000, 80_000)
    assert parameters(model) == pytest.approx(384e6, rel=0.001)
    sizes = model.sizes()
    assert sizes["encoder"] == sizes["decoder"] == 4 * (4 * 1000 * 2000 + 4000)
    assert sizes["embedding"] == 240_000 * 1000


@pytest.mark.parametrize("score", ["general", "dot", "location"])
def test_luong_differs_from_sutskever_by_its_attention_alone(score: str) -> None:
    """Section 4.1: four layers of 1000 cells, embeddings of 1000. W_c, input feeding, and W_a or what stands for it."""
    before, after = (sized(name, 50_000).sizes()["decoder"] for name in ("sutskever-2014", f"luong-2015-{score}"))
    attention = {"general": 1000 * 1000, "dot": 0, "location": 1000 * 50 + 50}[score]
    assert after - before == (2000 * 1000 + 1000) + 4 * 1000 * 1000 + attention


def test_bahdanau_has_about_the_size_of_the_papers_appendix() -> None:
    """A.2: n = 1000, m = 620, n' = 1000, 30,000 words a side; counted from the paper's matrices, with l = 500 and annotations of 2000."""
    words = 2 * 30_000 * 620 + 30_000 * 500
    encoder, decoder = 2 * 3 * 1000 * (620 + 1000), 3 * 1000 * (620 + 1000 + 2000)
    alignment, start, readout = 1000 * (1000 + 2000 + 1), 1000 * 1000, 2 * 500 * (1000 + 620 + 2000)
    model = sized("bahdanau-2015", 30_000)
    assert parameters(model) == pytest.approx(words + encoder + decoder + alignment + start + readout, rel=0.05)
