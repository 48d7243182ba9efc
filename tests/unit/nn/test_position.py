"""Positions added to the vectors: the two that work, and the two that the course shows to fail."""

import math

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import AttentifError
from attentif.nn.position import POSITIONS, AmplitudeConfig, BinaryConfig, LearnedConfig, PlaneConfig, SinusoidalConfig

WIDTH = 16


def vectors(config: object, places: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return config.build(WIDTH)(torch.arange(places), dtype)  # type: ignore[attr-defined]


def test_sinusoids_are_those_of_the_paper() -> None:
    table = vectors(SinusoidalConfig(), 50)
    for place, component in ((0, 0), (7, 3), (49, 8), (13, 15)):
        angle = place / 10000 ** (2 * (component // 2) / WIDTH)
        assert table[place, component].item() == pytest.approx(math.cos(angle) if component % 2 else math.sin(angle), abs=1e-12)


def test_sinusoids_have_constant_length_and_products_that_depend_on_the_offset_alone() -> None:
    table = vectors(SinusoidalConfig(), 60)
    assert_close(table.square().sum(-1), torch.full((60,), WIDTH / 2, dtype=torch.float64))
    products = table @ table.T
    for offset in (0, 1, 5, 30):
        diagonal = products.diagonal(offset)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal))


def test_a_shift_of_sinusoids_is_the_same_rotation_everywhere() -> None:
    table = vectors(SinusoidalConfig(), 40).view(40, WIDTH // 2, 2)
    frequency = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    cos, sin = (5 * frequency).cos(), (5 * frequency).sin()
    shifted = torch.stack([table[..., 0] * cos + table[..., 1] * sin, table[..., 1] * cos - table[..., 0] * sin], -1)
    assert_close(shifted[:35], table[5:])


def test_late_sinusoids_are_exact_in_float32() -> None:
    module = SinusoidalConfig().build(WIDTH)
    late = torch.tensor([[100_003]])
    assert_close(module(late, torch.float32), module.compute(late).float(), rtol=0, atol=0)
    assert module(late, torch.float32)[0, 0, 0].item() == pytest.approx(math.sin(100_003), abs=1e-6)


def test_the_table_grows_and_changes_type_without_changing_what_it_says() -> None:
    module = SinusoidalConfig().build(WIDTH)
    first = module(torch.tensor([3]), torch.float64)
    module(torch.tensor([300]), torch.float64)
    module(torch.tensor([3]), torch.float32)
    assert torch.equal(module(torch.tensor([3]), torch.float64), first)
    assert not list(module.state_dict())


def test_an_odd_width_drops_the_last_cosine() -> None:
    module = SinusoidalConfig().build(5)
    assert module(torch.arange(3), torch.float64).shape == (3, 5)


def test_learned_places_are_rows_of_a_table_and_longer_sequences_are_refused() -> None:
    config = LearnedConfig(max_len=6, offset=2)
    module = config.build(WIDTH)
    assert config.limit == 6
    assert module.table.weight.shape == (8, WIDTH)
    assert torch.equal(module(torch.tensor([[0, 5]]), torch.float32)[0], module.table.weight[[2, 7]])
    with pytest.raises(AttentifError, match=r"sequence.*7.*6"):
        module(torch.arange(7), torch.float32)


def test_amplitudes_grow_without_bound_and_drown_the_words() -> None:
    table = vectors(AmplitudeConfig(scale=4.0), 9)
    assert table[8].tolist() == [2.0] * WIDTH
    assert vectors(AmplitudeConfig(), 2000)[-1].norm() > 100 * math.sqrt(WIDTH)


def test_binary_neighbours_may_differ_in_every_bit() -> None:
    table = vectors(BinaryConfig(), 17)
    assert table[6].tolist() == [0, 1, 1] + [0] * 13
    distance = (table[1:] - table[:-1]).abs().sum(-1)
    assert distance[0] == 1  # 0 → 1
    assert distance[7] == 4  # 7 → 8
    wide = BinaryConfig().build(100)(torch.tensor([2**40]), torch.float32)
    assert wide.nonzero().tolist() == [[0, 40]]


@pytest.mark.parametrize("kind", list(POSITIONS))
def test_every_kind_gives_a_vector_of_the_asked_type_for_any_shape(kind: str) -> None:
    sizes = {"rows": 2, "columns": 3} if kind == "learned-2d" else {}
    module = POSITIONS[kind](**sizes).build(WIDTH)
    for shape in ((5,), (2, 3), (1, 0)):
        result = module(torch.zeros(shape, dtype=torch.long), torch.float32)
        assert result.shape == (*shape, WIDTH)
        assert result.dtype == torch.float32


def test_places_of_the_plane_are_sinusoids_of_the_row_and_of_the_column() -> None:
    table = vectors(PlaneConfig(columns=5), 20)
    axis = SinusoidalConfig().build(WIDTH // 2).compute(torch.arange(5))
    for place in (0, 4, 13, 19):
        assert_close(table[place], torch.cat([axis[place // 5], axis[place % 5]]))
