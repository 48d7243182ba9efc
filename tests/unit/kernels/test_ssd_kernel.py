"""Mamba-2's state space: chunks and the recurrence are one function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.ssd import CHUNK, ssd, ssd_naive


def inputs(
    B: int = 2, T: int = 37, H: int = 4, K: int = 3, G: int = 2, S: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[Tensor]:
    """x, Δ, A, B, C, D and h_0."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)
    values = [draw(B, T, H, K), draw(B, T, H).sigmoid(), -draw(H).exp(), draw(B, T, G, S), draw(B, T, G, S), draw(H), draw(B, H, S, K)]
    return [t.to(dtype).requires_grad_() for t in values]


def both(form: object, x: list[Tensor]) -> tuple[Tensor, ...]:
    """Outputs, last states, and the gradients of a sum in which each number has a weight of its own."""
    y, last = form(*x)
    generator = torch.Generator().manual_seed(1)
    weigh = lambda t: (t * torch.randn(t.shape, dtype=torch.float64, generator=generator).to(t.dtype)).sum()
    return y.detach(), last.detach(), *torch.autograd.grad(weigh(y) + weigh(last), x)


@pytest.mark.parametrize("T", [1, 2, 37, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5])
@pytest.mark.parametrize("G", [1, 2, 4])
def test_outputs_states_and_gradients_equal_the_definition(T: int, G: int) -> None:
    x = inputs(T=T, G=G)
    assert_close(both(ssd, x), both(ssd_naive, x), rtol=1e-10, atol=1e-10)


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(ssd, inputs(B=1, T=CHUNK + 2, H=2, K=1, G=1, S=1))


def test_float32_stays_within_rounding_of_float64() -> None:
    x = inputs(T=300, H=4, K=16, S=16, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() for t in x]
    for name, ours, theirs in zip(
        ("y", "h", "dx", "dΔ", "dA", "dB", "dC", "dD", "dh0"), both(ssd, x), both(ssd_naive, double), strict=True
    ):
        # sums of exponents within a chunk reach some tens, each rounded to 6e-8 of that; relative to the largest number
        assert float((ours.double() - theirs).abs().max() / theirs.abs().max()) < 1e-5, name


def test_a_strong_decay_gives_no_infinity_and_no_nan() -> None:
    x = inputs(T=100, dtype=torch.float32)
    x[1] = (1000 * x[1].detach()).requires_grad_()
    assert all(t.isfinite().all() for t in both(ssd, x))


def test_a_step_size_of_zero_keeps_the_state() -> None:
    x, delta, *rest = inputs()
    assert_close(ssd(x, torch.zeros_like(delta), *rest)[1], rest[-1], rtol=0, atol=0)


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [inputs(T=130, seed=seed) for seed in range(3)]
    expected = [both(ssd, x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: both(ssd, x), sets)) for _ in range(3)):
            assert_close(results, expected, rtol=1e-13, atol=1e-13)
