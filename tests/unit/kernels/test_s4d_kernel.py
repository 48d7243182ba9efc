"""S4D: the convolution by FFT and the recurrence are one function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.s4d import s4d, s4d_advance, s4d_naive


def inputs(B: int = 3, T: int = 37, D: int = 4, S: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """x, Δ, A, C, D and h_0."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)
    wave = lambda *shape: torch.complex(draw(*shape), draw(*shape))
    A = torch.complex(-draw(D, S).exp(), 3 * draw(D, S))
    return [t.requires_grad_() for t in (draw(B, T, D), (draw(D) - 2).exp(), A, wave(D, S), draw(D), wave(B, D, S))]


def gradients(y: Tensor, x: list[Tensor]) -> tuple[Tensor, ...]:
    probe = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    total = (y.real * probe).sum() + (y.imag * probe.roll(1)).sum() if y.is_complex() else (y * probe).sum()
    return torch.autograd.grad(total, x, retain_graph=True)


@pytest.mark.parametrize("T", [1, 2, 37, 64, 100])
def test_the_convolution_equals_the_recurrence_from_an_empty_state(T: int) -> None:
    *x, h0 = inputs(T=T)
    y, naive = s4d(*x), s4d_naive(*x, torch.zeros_like(h0))[0]
    assert_close(y, naive, rtol=1e-11, atol=1e-11)
    assert_close(gradients(y, x), gradients(naive, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("T", [1, 2, 37])
def test_going_on_from_a_state_equals_the_recurrence(T: int) -> None:
    x = inputs(T=T)
    y, h = s4d_advance(*x, torch.full((3,), T))
    expected, last = s4d_naive(*x)
    assert_close((y, h), (expected, last), rtol=1e-11, atol=1e-11)
    for ours, theirs in ((y, expected), (h, last)):
        wanted = x[:3] + x[5:]  # the state depends neither on C nor on D
        assert_close(gradients(ours, wanted), gradients(theirs, wanted), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("T", [1, 9])
def test_each_row_stops_at_its_own_length(T: int) -> None:
    x, *rest, h0 = inputs(T=T)
    lengths = torch.tensor([T, 0, T // 2])
    h = s4d_advance(x * (torch.arange(T) < lengths[:, None])[..., None], *rest, h0, lengths)[1]
    for row, length in enumerate(lengths.tolist()):
        assert_close(h[row : row + 1], s4d_naive(x[row : row + 1, :length], *rest, h0[row : row + 1])[1], rtol=1e-11, atol=1e-11)


def test_gradients_are_those_of_finite_differences() -> None:
    x = inputs(B=2, T=5, D=2, S=2)
    assert torch.autograd.gradcheck(s4d, x[:5])
    assert torch.autograd.gradcheck(lambda *args: s4d_advance(*args, torch.tensor([5, 5])), x)


def test_float32_keeps_its_digits_over_thousands_of_steps() -> None:
    single = [t.detach() for t in inputs(B=1, T=4000, D=3, S=16, dtype=torch.float32)[:5]]
    single[2] = torch.complex(torch.full((3, 16), -0.5), torch.pi * torch.arange(16.0).expand(3, 16))  # thousands of turns
    double = [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in single]
    exact = s4d_naive(*double, torch.zeros(1, 3, 16, dtype=torch.complex128))[0]
    # an FFT of 8192 points spreads roundings of 6e-8 of the largest output over all others
    assert float((s4d(*single) - exact).abs().max() / exact.abs().max()) < 3e-6


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [[t.detach() for t in inputs(seed=seed)[:5]] for seed in range(3)]
    expected = [s4d(*x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: s4d(*x), sets)) for _ in range(5)):
            assert_close(results, expected, rtol=1e-13, atol=1e-13)
