"""S4: its convolution, its steps without a matrix and its recurrence are one function, and HiPPO is HiPPO."""

import numpy as np
import pytest
import scipy.signal
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.s4_dplr import convolution_kernel, hippo_legs, s4_dplr, s4_dplr_advance, s4_dplr_naive


def inputs(B: int = 3, T: int = 37, D: int = 4, S: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """x, Δ, Λ, P, B, C, D and h_0."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)
    wave = lambda *shape: torch.complex(draw(*shape), draw(*shape))
    rates = torch.complex(-draw(D, S).exp(), 3 * draw(D, S))
    drawn = draw(B, T, D), (draw(D) - 2).exp(), rates, wave(D, S), wave(D, S), wave(D, S), draw(D), wave(B, D, S)
    return [t.requires_grad_() for t in drawn]


def gradients(y: Tensor, x: list[Tensor]) -> tuple[Tensor, ...]:
    probe = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    total = (y.real * probe).sum() + (y.imag * probe.roll(1)).sum() if y.is_complex() else (y * probe).sum()
    return torch.autograd.grad(total, x, retain_graph=True)


@pytest.mark.parametrize("T", [1, 2, 37, 64, 100])
def test_the_convolution_equals_the_recurrence_from_an_empty_state(T: int) -> None:
    *x, h0 = inputs(T=T)
    y, naive = s4_dplr(*x), s4_dplr_naive(*x, torch.zeros_like(h0))[0]
    assert_close(y, naive, rtol=1e-11, atol=1e-11)
    assert_close(gradients(y, x), gradients(naive, x), rtol=1e-9, atol=1e-9)  # gradients of inverses, of the order of 100


@pytest.mark.parametrize("T", [1, 2, 37])
def test_going_on_from_a_state_equals_the_recurrence(T: int) -> None:
    x, *rest, h0 = inputs(T=T)
    y, h = s4_dplr_advance(x, tuple(rest), h0, torch.full((3,), T))
    expected, last = s4_dplr_naive(x, *rest, h0)
    assert_close((y, h), (expected, last), rtol=1e-11, atol=1e-11)
    wanted = [x, *rest[:4], h0]  # the state depends neither on C nor on D
    for ours, theirs in ((y, expected), (h, last)):
        assert_close(gradients(ours, wanted), gradients(theirs, wanted), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("T", [1, 9])
def test_each_row_stops_at_its_own_length(T: int) -> None:
    x, *rest, h0 = inputs(T=T)
    lengths = torch.tensor([T, 0, T // 2])
    h = s4_dplr_advance(x * (torch.arange(T) < lengths[:, None])[..., None], tuple(rest), h0, lengths)[1]
    for row, length in enumerate(lengths.tolist()):
        assert_close(h[row : row + 1], s4_dplr_naive(x[row : row + 1, :length], *rest, h0[row : row + 1])[1], rtol=1e-11, atol=1e-11)


def test_diagonal_plus_low_rank_is_hippo_as_scipy_discretises_and_simulates_it() -> None:
    """A_nk = −√(2n+1)√(2k+1) below the diagonal and −(n+1) on it, B_n = √(2n+1) (Gu et al. 2020), by scipy's bilinear rule."""
    N, step, T = 16, 0.05, 50
    n = np.arange(N)
    A = -np.tril(np.sqrt((2 * n[:, None] + 1) * (2 * n + 1)), -1) - np.diag(n + 1.0)
    written, read = np.sqrt(2 * n + 1.0)[:, None], np.random.default_rng(0).standard_normal((1, N))
    system = scipy.signal.cont2discrete((A, written, read, np.zeros((1, 1))), step, method="bilinear")
    # scipy reads the state before the input is added: C Ā^l B̄ comes a step later
    theirs = scipy.signal.dimpulse((np.asarray(system[0]), np.asarray(system[1]), read, np.zeros((1, 1)), step), n=T + 1)[1][0][1:, 0]
    rates, P, B = hippo_legs(N)
    V = _eigenvectors(A, N)
    C = torch.from_numpy(read[0]).to(V.dtype) @ V
    ours = convolution_kernel(T, torch.tensor([step], dtype=torch.float64), rates[None], P[None], B[None], C[None])[0]
    assert_close(ours, torch.from_numpy(theirs), rtol=1e-10, atol=1e-10)


def _eigenvectors(A: np.ndarray, N: int) -> Tensor:
    """Of A + P Pᵀ, one of each conjugate pair, with the phases of `hippo_legs`: V* B is its B."""
    P = np.sqrt(np.arange(N) + 0.5)
    values, V = np.linalg.eig(A + P[:, None] * P)
    V = torch.from_numpy(V[:, values.imag > 0][:, np.argsort(values[values.imag > 0].imag)])
    B = torch.sqrt(2 * torch.arange(N, dtype=torch.float64) + 1).to(V.dtype)
    phase = (V.mH @ B) / hippo_legs(N)[2]
    return V * (phase / phase.abs())


def test_float32_keeps_its_digits_over_thousands_of_steps() -> None:
    """HiPPO at the sizes of training: roundings of an FFT of 8192 points, and of Ā^L by squaring."""
    *x, _ = (t.detach() for t in inputs(B=1, T=4000, D=3, S=16, dtype=torch.float32))
    rates, P, B = (t.to(torch.complex64).expand(3, 16) for t in hippo_legs(32))
    single = [x[0], torch.tensor([0.001, 0.01, 0.1]), rates, P, B, *x[5:]]
    double = [t.to(torch.complex128 if t.is_complex() else torch.float64) for t in single]
    exact = s4_dplr_naive(*double, torch.zeros(1, 3, 16, dtype=torch.complex128))[0]
    assert float((s4_dplr(*single) - exact).abs().max() / exact.abs().max()) < 2e-5
