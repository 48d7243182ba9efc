"""Pictures cut into patches: in order, of every size that a patch divides, and refused otherwise."""

from typing import Any

import pytest
import torch

from attentif.errors import ConfigError
from attentif.models.batch import Input
from attentif.models.frontends.patches import Patches, PatchesConfig, patches
from attentif.nn.seq import Seq


def frontend(**values: Any) -> Patches:
    config = PatchesConfig(**{"size": 2, "channels": 3, "height": 4, "width": 6} | values)
    return config.build(8, 0.0)


def pictures(batch: int = 2) -> Input:
    data = torch.randn(batch, 3, 4, 6)
    return Input(data, Seq.padded([6] * batch))


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 4}, "size: patches of 4 pixels do not divide the pictures' width of 6"),
        ({"height": None}, "not known yet"),
        ({"position": {"kind": "learned", "max_len": 5}}, "position: it ends at 5, and a picture has 6 patches"),
    ],
)
def test_what_cannot_be_cut_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        frontend(**values)
