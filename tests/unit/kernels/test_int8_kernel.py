"""Weights in bytes: the packed form against the equation, and what rounding costs."""

import pytest
import torch
from torch.testing import assert_close

from attentif.kernels.int8 import dequantize_blocks, linear_int8, linear_int8_naive, pack_blocks, quantize_blocks, unpack_blocks


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 70])
@pytest.mark.parametrize(("out", "inp"), [(16, 32), (40, 100), (5, 7), (300, 96)])
def test_the_packed_form_equals_the_equation(rows: int, out: int, inp: int) -> None:
    x, (q, scale), bias = draw(rows, inp), quantize_blocks(draw(out, inp, seed=1)), draw(out, seed=2)
    x[0] *= 1e-4  # each row and each block has a scale of its own
    # a tie may be rounded up by one form and down by the other: one step of 1/127 of a block's largest number
    y = linear_int8(x, pack_blocks(q, scale), out, bias)
    assert_close(y, linear_int8_naive(x, q, scale, bias), rtol=1e-4, atol=1e-4 * inp**0.5)


def test_packing_loses_nothing() -> None:
    q, scale = quantize_blocks(draw(37, 75))
    again = unpack_blocks(pack_blocks(q, scale), 37, 75)
    assert torch.equal(again[0], q)
    assert torch.equal(again[1], scale)


def test_rounding_is_within_half_a_step_of_each_block() -> None:
    weight = draw(8, 64) * torch.tensor([1e-3, 1.0]).repeat_interleave(32)
    q, scale = quantize_blocks(weight)
    error = (dequantize_blocks(q, scale) - weight).abs().unflatten(1, (2, 32)).amax(-1)
    assert (error <= 0.51 * scale.float() + 1e-7).all()  # 1 % for the scale's own rounding to float16


def test_zeros_stay_zeros() -> None:
    q, scale = quantize_blocks(torch.zeros(16, 32))
    assert torch.count_nonzero(linear_int8(torch.zeros(2, 32), pack_blocks(q, scale), 16)) == 0
