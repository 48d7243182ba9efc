"""Small changes to pictures: each does what it is called, within its bounds, and nothing where it is not asked for."""

import math

import pytest
import torch
from torch import Tensor

from attentif.tasks.vision.augment import AugmentConfig, augment, mix_pairs

STILL = {"shift": 0.0, "rotate": 0.0, "scale": 0.0, "shear": 0.0}
SIDE = 33


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def dot(count: int = 64, row: int = 16, column: int = 24) -> Tensor:
    """Pictures with a soft dot, whose place a change moves."""
    at = torch.arange(SIDE)
    squared = (at[:, None] - row) ** 2 + (at - column) ** 2
    return torch.exp(-squared / 4.0).expand(count, 1, SIDE, SIDE)


def places(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of each dot's middle, from the picture's own."""
    weight = pictures[:, 0] / pictures[:, 0].sum((1, 2), keepdim=True)
    at = torch.arange(SIDE) - SIDE // 2
    return (weight.sum(2) * at).sum(1), (weight.sum(1) * at).sum(1)


def test_nothing_asked_for_changes_nothing() -> None:
    pictures = torch.randn(4, 3, 8, 6)
    assert augment(pictures, AugmentConfig(**STILL)) is pictures


def test_a_shift_moves_by_at_most_its_share() -> None:
    rows, columns = places(augment(dot(), AugmentConfig(**STILL | {"shift": 0.1})))
    assert float(rows.abs().max()) <= 0.1 * SIDE + 0.1
    assert float((columns - 8).abs().max()) <= 0.1 * SIDE + 0.1
    assert float(rows.std()) > 1
    assert float(columns.std()) > 1


def test_a_rotation_keeps_the_distance_from_the_middle_and_turns_both_ways() -> None:
    rows, columns = places(augment(dot(), AugmentConfig(**STILL | {"rotate": 30.0})))
    torch.testing.assert_close((rows**2 + columns**2).sqrt(), torch.full((64,), 8.0), rtol=0, atol=0.1)  # pixels are interpolated
    angles = torch.atan2(rows, columns) * 180 / math.pi
    assert -31 < float(angles.min()) < -10
    assert 10 < float(angles.max()) < 31


def test_scales_move_the_dot_along_its_ray_and_shears_along_its_row() -> None:
    rows, columns = places(augment(dot(), AugmentConfig(**STILL | {"scale": 0.25})))
    assert float(rows.abs().max()) < 0.1
    assert float(columns.min()) >= 8 * 0.75 - 0.1
    assert float(columns.max()) <= 8 * 1.25 + 0.1
    rows, columns = places(augment(dot(row=24, column=16), AugmentConfig(**STILL | {"shear": 20.0})))
    torch.testing.assert_close(rows, torch.full((64,), 8.0), rtol=0, atol=0.1)
    assert float(columns.abs().max()) <= 8 * math.tan(math.radians(20)) + 0.1
    assert float(columns.std()) > 0.5


def test_a_mirror_turns_half_of_the_pictures_left_to_right() -> None:
    rows, columns = places(augment(dot(), AugmentConfig(**STILL | {"flip": True})))
    assert float(rows.abs().max()) < 0.01
    assert 16 < int((columns < 0).sum()) < 48
    torch.testing.assert_close(columns.abs(), torch.full((64,), 8.0), rtol=0, atol=0.01)


def test_elastic_fields_bend_within_their_bound() -> None:
    rows, columns = places(augment(dot(), AugmentConfig(**STILL | {"elastic": 0.05})))
    assert float(rows.abs().max()) <= 0.05 * SIDE * 1.5  # cubic interpolation overshoots its points
    assert float(rows.std()) > 0.1
    assert float(columns.std()) > 0.1


def test_beyond_the_border_a_picture_goes_on_with_its_border() -> None:
    pictures = torch.full((16, 1, 8, 8), 3.0)
    torch.testing.assert_close(augment(pictures, AugmentConfig(shift=0.4, rotate=45.0)), pictures)


def test_a_rectangle_of_some_pictures_is_erased() -> None:
    pictures = torch.ones(400, 2, 20, 20)
    holes = augment(pictures, AugmentConfig(**STILL | {"erase": 0.5})) == 0
    assert torch.equal(holes[:, 0], holes[:, 1])
    erased = holes[:, 0].flatten(1).float().mean(1)
    assert 130 < int((erased > 0).sum()) < 230  # half of them, but for those whose rectangle lies beyond the border
    assert float(erased.max()) < 0.3
    row, column = holes[:, 0].any(2), holes[:, 0].any(1)
    assert torch.equal(holes[:, 0], row[:, :, None] & column[:, None, :])


def test_a_mixture_leans_to_the_first_picture() -> None:
    pictures = torch.randn(8, 1, 4, 4)
    together, order, share = mix_pairs(pictures, 0.3)
    assert 0.5 <= share <= 1
    torch.testing.assert_close(together, share * pictures + (1 - share) * pictures[order])
