"""Rotary positions: what a turn keeps, and what is refused."""

import pytest
import torch
from pydantic import ValidationError
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.rotary import Llama3Scaling, NTKScaling, RotaryConfig, YarnScaling
from attentif.nn.seq import Seq


def turned(config: RotaryConfig, x: torch.Tensor, seq: Seq) -> torch.Tensor:
    (result,) = config.build(x.shape[-1])(seq, x)
    return result


@pytest.mark.parametrize("config", [RotaryConfig(), RotaryConfig(pairs="adjacent"), RotaryConfig(fraction=0.5)])
def test_products_depend_on_the_offset_alone_and_lengths_are_kept(config: RotaryConfig) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, dtype=torch.float64)
    seq = Seq.from_padded([30])
    every_q, every_k = (turned(config, v.expand(1, 30, 1, 8), seq)[0, :, 0] for v in (q, k))
    products = every_q @ every_k.T
    for offset in (-20, 0, 7):
        diagonal = products.diagonal(offset)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert_close(every_q.norm(dim=-1), q.norm().expand(30))
    assert_close(every_q[0], q)


def test_a_later_start_continues_the_same_turn() -> None:
    x = torch.randn(2, 10, 3, 8, dtype=torch.float64)
    rotary = RotaryConfig().build(8)
    (whole,) = rotary(Seq.from_padded([10, 10]), x)
    (late,) = rotary(Seq.from_padded([4, 4], start=6), x[:, 6:])
    assert torch.equal(late, whole[:, 6:])
    (ragged,) = rotary(Seq.from_padded([2, 2], start=torch.tensor([3, 8])), torch.stack([x[0, 3:5], x[1, 8:]]))
    assert torch.equal(ragged, torch.stack([whole[0, 3:5], whole[1, 8:]]))


def test_the_table_follows_the_type_and_never_enters_the_state_dict() -> None:
    rotary = RotaryConfig().build(8)
    for dtype in (torch.float32, torch.float64, torch.float32):
        (y,) = rotary(Seq.from_padded([5]), torch.ones(1, 5, 1, 8, dtype=dtype))
        assert y.dtype == dtype
    assert not rotary.state_dict()


def test_a_table_first_made_while_inferring_can_be_trained_with() -> None:
    rotary = RotaryConfig().build(8)
    with torch.inference_mode():
        rotary(Seq.from_padded([5]), torch.ones(1, 5, 1, 8))
    x = torch.ones(1, 5, 1, 8, requires_grad=True)
    rotary(Seq.from_padded([5]), x)[0].sum().backward()
    assert x.grad is not None


def test_ntk_gives_each_row_the_angles_of_its_own_length() -> None:
    config = RotaryConfig(scaling=NTKScaling(factor=2.0, trained=4))
    x = torch.randn(2, 9, 1, 8, dtype=torch.float64)
    together = turned(config, x, Seq.from_padded([9, 3]))
    assert_close(together[1, :3], turned(config, x[1:, :3], Seq.from_padded([3]))[0])
    assert_close(together[1, :3], turned(RotaryConfig(), x[1:, :3], Seq.from_padded([3]))[0])
    assert not torch.allclose(together[0], turned(RotaryConfig(), x[:1], Seq.from_padded([9]))[0])


def test_what_cannot_be_turned_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"3 of 6 components.* even"):
        RotaryConfig(fraction=0.5).build(6)
    with pytest.raises(ValidationError, match="fewer than fast"):
        YarnScaling(factor=2.0, trained=8, fast=1.0, slow=2.0)
    with pytest.raises(ValidationError, match="above high"):
        Llama3Scaling(factor=2.0, trained=8, low=5.0, high=4.0)
    with pytest.raises(ValidationError, match=r"greater.*1"):
        NTKScaling(factor=0.5, trained=8)
