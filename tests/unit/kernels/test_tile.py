"""The small matrix product of the recurrences."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attentif.kernels.jit import jit
from attentif.kernels.tile import multiply, panels, round_up_rows


@jit(cache=False)
def _product(rows: int, h: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    multiply(rows, h, w, out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (4, 7, 24), (5, 16, 25), (8, 3, 100), (3, 40, 12)])
def test_the_product_is_torchs_and_columns_beyond_are_zero(rows: int, inner: int, columns: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    h, w = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((round_up_rows(rows), inner), (inner, columns)))
    laid_out = panels(w)
    out = torch.full((len(h), laid_out.shape[0] * laid_out.shape[2]), 9.0, dtype=dtype)
    _product(rows, h.numpy(), laid_out.numpy(), out.numpy())
    assert_close(out[:rows, :columns], h[:rows] @ w, atol=1e-4 if dtype is torch.float32 else 1e-13, rtol=0)  # sums of up to 40 products
    assert not out[:rows, columns:].any()


def test_rows_beyond_the_last_tile_are_left_alone() -> None:
    h, w, out = torch.ones(8, 2), panels(torch.ones(2, 3)), torch.zeros(8, 24)
    _product(4, h.numpy(), w.numpy(), out.numpy())
    assert (out[:4, :3] == 2).all()
    assert not out[4:].any()


def test_panels_hold_neighbouring_columns() -> None:
    w = torch.arange(60.0).view(2, 30)
    laid_out = panels(w)
    assert laid_out.shape == (2, 2, 24)
    assert torch.equal(laid_out[0], w[:, :24])
    assert torch.equal(laid_out[1, :, :6], w[:, 24:])
    assert not laid_out[1, :, 6:].any()
