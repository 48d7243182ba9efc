"""The long convolution: by FFT and by sums, one function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels import long_conv as module
from attentif.kernels.long_conv import fast_size, long_conv, long_conv_at, long_conv_naive


def inputs(B: int = 2, T: int = 21, D: int = 7, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_()
    return [draw(B, T, D), draw(T, D)]


@pytest.mark.parametrize("T", [1, 2, 21, 64])
@pytest.mark.parametrize("cells", [1, 200, 1 << 18])
def test_outputs_and_gradients_equal_the_definition(T: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", cells)  # components one by one, in some groups, all at once
    x = inputs(T=T)
    probe = torch.randn(2, T, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    fast, naive = long_conv(*x), long_conv_naive(*x)
    assert_close(fast, naive, rtol=1e-12, atol=1e-12)
    assert_close(torch.autograd.grad((fast * probe).sum(), x), torch.autograd.grad((naive * probe).sum(), x), rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(long_conv, inputs(T=5, D=3))


def test_a_filter_longer_than_the_sequence_is_cut() -> None:
    z, h = inputs()
    assert_close(long_conv(z[:, :9], h), long_conv_naive(z, h)[:, :9], rtol=1e-12, atol=1e-12)


def test_one_place_is_the_same_as_that_place_of_the_whole() -> None:
    z, h = inputs()
    places = torch.tensor([20, 6])
    assert_close(long_conv_at(z, h, places), long_conv_naive(z, h)[torch.arange(2), places], rtol=1e-12, atol=1e-12)
    assert_close(long_conv_at(z, h, places[:1]), long_conv_naive(z, h)[:, 20], rtol=1e-12, atol=1e-12)


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(T=300, dtype=torch.float32)
    double = [t.detach().double() for t in single]
    # sums of 300 products near 1, of size √300 = 17; an FFT of 600 carries some 10 roundings of 6e-8 of that
    assert_close(long_conv(*single).double(), long_conv_naive(*double), rtol=1e-5, atol=3e-5)


def test_transforms_are_long_enough_and_not_much_longer() -> None:
    for least in range(1, 5000):
        assert least <= fast_size(least) < 1.34 * least + 1


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [[t.detach() for t in inputs(seed=seed)] for seed in range(3)]
    expected = [long_conv(*x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: long_conv(*x), sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for y, z in zip(results, expected, strict=True))
