"""The linear recurrence: three forms, one function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.linear_recurrence import linear_recurrence, linear_recurrence_doubling, linear_recurrence_naive

FAST = [linear_recurrence, linear_recurrence_doubling]


def inputs(B: int = 3, T: int = 37, D: int = 70, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_()
    a = (draw(B, T, D).detach().sigmoid()).requires_grad_()
    return [a, draw(B, T, D), draw(B, D)]


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("T", [1, 2, 37, 64])
def test_states_and_gradients_equal_the_definition(form: object, T: int) -> None:
    x = inputs(T=T)
    probe = torch.randn(3, T, 70, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    fast, naive = form(*x), linear_recurrence_naive(*x)
    assert_close(fast, naive, rtol=1e-12, atol=1e-12)
    assert_close(torch.autograd.grad((fast * probe).sum(), x), torch.autograd.grad((naive * probe).sum(), x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: object) -> None:
    assert torch.autograd.gradcheck(form, inputs(B=2, T=5, D=3))


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(T=300, dtype=torch.float32)
    double = [t.detach().double() for t in single]
    # decays near 1/2 forget within some 20 steps: 20 roundings of 6e-8 on states near 2
    assert_close(linear_recurrence(*single).double(), linear_recurrence_naive(*double), rtol=1e-5, atol=1e-5)


def test_a_decay_of_one_without_input_keeps_the_state() -> None:
    a, b, h0 = torch.ones(2, 4, 3), torch.zeros(2, 4, 3), torch.randn(2, 3)
    assert torch.equal(linear_recurrence(a, b, h0), h0[:, None].expand(2, 4, 3))


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [[t.detach() for t in inputs(seed=seed)] for seed in range(3)]
    expected = [linear_recurrence(*x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: linear_recurrence(*x), sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for y, z in zip(results, expected, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    x = [t.detach() for t in inputs()]
    assert torch.equal(torch.compile(linear_recurrence, backend="eager", fullgraph=True)(*x), linear_recurrence(*x))
