"""Pictures cut into patches: in order, of every size that a patch divides, and refused otherwise."""

from typing import Any

import pytest
import torch

from attentif.errors import ConfigError
from attentif.models.batch import Input
from attentif.models.frontends.patches import Patches, PatchesConfig, patches
from attentif.nn.position import LearnedConfig, LearnedPlaneConfig
from attentif.nn.seq import Seq


def frontend(**values: Any) -> Patches:
    config = PatchesConfig(**{"size": 2, "channels": 3, "height": 4, "width": 6} | values)
    return config.build(8, 0.0)


def pictures(batch: int = 2) -> Input:
    data = torch.randn(batch, 3, 4, 6)
    return Input(data, Seq.from_padded([6] * batch))


def test_patches_are_a_strided_convolution() -> None:
    """ViT's reference forms cut patches by a convolution: the same numbers, one product."""
    module, given = frontend(), pictures()
    x, seq = module(given)
    weight = module.patch.weight.reshape(8, 3, 2, 2)
    expected = torch.nn.functional.conv2d(given.data, weight, module.patch.bias, stride=2).flatten(2).mT
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-6)  # float32, sums of 12 products in another order
    assert seq.lengths.tolist() == [6, 6]


def test_patches_run_row_by_row() -> None:
    numbers = torch.arange(4 * 6).reshape(1, 1, 4, 6)
    assert patches(numbers, 2)[0, 1].tolist() == [2, 3, 8, 9]
    assert patches(numbers, 2)[0, 3].tolist() == [12, 13, 18, 19]


def test_the_class_token_comes_first_and_counts() -> None:
    module = frontend(class_token=True)
    x, seq = module(pictures())
    assert x.shape == (2, 7, 8)
    assert seq.max_len == 7
    assert torch.equal(x[0, 0], x[1, 0])


def test_overlapping_patches_are_a_padded_convolution() -> None:
    module, given = frontend(size=4, stride=2), pictures()
    x, seq = module(given)
    weight = module.patch.weight.reshape(8, 3, 4, 4)
    expected = torch.nn.functional.conv2d(given.data, weight, module.patch.bias, stride=2, padding=1).flatten(2).mT
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-5)  # float32, sums of 48 products in another order
    assert seq.lengths.tolist() == [6, 6]


def test_a_stem_reads_the_pixels_first_and_each_picture_by_itself() -> None:
    module, given = frontend(stem=[5, 7]), pictures()
    x, _ = module(given)
    assert module.patch.in_features == 7 * 4
    alone, _ = module(Input(given.data[1:], Seq.from_padded([6])))
    torch.testing.assert_close(x[1:], alone)


def test_positions_of_the_plane_tell_rows_from_columns_and_leave_the_class_token_out() -> None:
    module = frontend(position={"kind": "sinusoidal-2d"}, class_token=True)
    plain = frontend(class_token=True)
    plain.load_state_dict(module.state_dict())
    given = pictures()
    added = module(given)[0] - plain(given)[0]
    torch.testing.assert_close(added[:, 0], torch.zeros(2, 8))
    grid = added[0, 1:].view(2, 3, 8)
    torch.testing.assert_close(grid[0, :, :4], grid[0, :1, :4].expand(3, -1))  # the row's half is the same along a row
    torch.testing.assert_close(grid[:, 1, 4:], grid[:1, 1, 4:].expand(2, -1))  # the column's half along a column
    assert not torch.allclose(grid[0, 0], grid[1, 0])


def test_a_picture_of_nothing_known_is_built_on_paper() -> None:
    config = PatchesConfig(size=8, stride=4).with_any_size()
    assert config.tokens_per_picture == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 3, "stride": 2}, "stride: patches of 3 pixels overlap by an even number of pixels, not every 2"),
        ({"size": 2, "stride": 4}, "stride: patches of 2 pixels overlap"),
        ({"size": 6, "stride": 4}, "stride: steps of 4 pixels do not divide the pictures' width of 6"),
        ({"size": 4}, "size: patches of 4 pixels do not divide the pictures' width of 6"),
        ({"height": None}, "not known yet"),
        ({"position": {"kind": "learned", "max_len": 5}}, "position: it ends at 5, and a picture has 6 patches"),
    ],
)
def test_what_cannot_be_cut_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        frontend(**values)


def test_registers_come_after_the_learned_tokens_and_have_no_position() -> None:
    position = LearnedConfig(max_len=8)
    module = frontend(class_token=True, distillation_token=True, registers=3, position=position)
    assert module.class_token is not None
    assert module.distillation_token is not None
    assert module.registers is not None
    given = pictures()
    x, seq = module(given)
    table = module.position.table.weight
    assert seq.max_len == 11
    assert torch.equal(x[0, 0], module.class_token + table[0])
    assert torch.equal(x[0, 1], module.distillation_token + table[1])
    assert torch.equal(x[0, 2:5], module.registers)
    torch.testing.assert_close(x[:, 5:], module.patch(patches(given.data, 2)) + table[2:])
    with pytest.raises(ConfigError, match="8 patches"):
        frontend(class_token=True, distillation_token=True, registers=3, position=LearnedConfig(max_len=7))


def test_positions_follow_the_size_of_the_pictures() -> None:
    values = {"class_token": True, "position": LearnedPlaneConfig(rows=4, columns=4)}
    module = frontend(**values)
    assert module.position.table.num_embeddings == 17
    assert module(pictures())[0].shape == (2, 7, 8)
