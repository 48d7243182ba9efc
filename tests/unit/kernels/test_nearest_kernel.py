"""Nearest neighbours in a memory: three forms, one function."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.nearest import nearest, nearest_gather, nearest_naive

FAST = [nearest, nearest_gather]


def inputs(B: int = 2, H: int = 3, T: int = 7, S: int = 40, K: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda length: torch.randn(B, H, length, K, dtype=torch.float64, generator=generator).to(dtype).requires_grad_()
    return [draw(T), draw(S), draw(S)]


def allowed(T: int = 7, S: int = 40, rows: int = 1) -> Tensor:
    """The first query may choose from nothing, the second from two places, the others from more and more."""
    counts = torch.tensor([0, 2, 3, 10, 25, 39, 40])[:T]
    return (torch.arange(S) < counts[:, None]).expand(rows, 1, T, S)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("top", [1, 4, 60])
@pytest.mark.parametrize("rows", [1, 2])
def test_reading_and_gradient_equal_the_definition(form: Any, top: int, rows: int) -> None:
    q, k, v = inputs()
    mask = allowed(rows=rows).flip(-1) if rows == 1 else torch.cat([allowed(), allowed().flip(-1)])
    fast, naive = (f(q, k, v, mask, scale=0.7, top=top) for f in (form, nearest_naive))
    assert_close(fast, naive, rtol=1e-12, atol=1e-12)
    assert torch.count_nonzero(fast[:, :, 0]) == 0
    probe = torch.randn_like(fast)
    gradients = [torch.autograd.grad((y * probe).sum(), [q, k, v], allow_unused=True) for y in (fast, naive)]
    assert_close(gradients[0][0], gradients[1][0], rtol=1e-12, atol=1e-12)
    assert gradients[0][1] is gradients[0][2] is None  # the memory is external


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: Any) -> None:
    """At a scale of 1 a change of 1e-6 moves no neighbour of these points in or out."""
    q, k, v = (t.detach() for t in inputs(T=4))
    assert torch.autograd.gradcheck(lambda x: form(x, k, v, allowed(4), scale=1.0, top=3), q.requires_grad_())


@pytest.mark.parametrize("form", FAST)
def test_without_gradients_the_same_is_read(form: Any) -> None:
    q, k, v = inputs()
    expected = form(q, k, v, allowed(), scale=0.7, top=4)
    with torch.no_grad():
        assert_close(form(q, k, v, allowed(), scale=0.7, top=4), expected.detach(), rtol=0, atol=0)


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(S=300, K=16, dtype=torch.float32)
    double = [t.detach().double() for t in single]
    mask = torch.ones(1, 1, 7, 300, dtype=torch.bool)
    # scores up to 4 with some 4e-7 of rounding in each, values near 1; the choice of neighbours is the same unless two are that close
    y = nearest(*single, mask, scale=0.25, top=8)
    assert y.dtype == torch.float32
    assert_close(y.double(), nearest_naive(*double, mask, scale=0.25, top=8), rtol=1e-5, atol=5e-6)


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [inputs(seed=seed) for seed in range(3)]
    run = lambda x: torch.autograd.grad(nearest(*x, allowed(), scale=0.7, top=4).square().sum(), x[0])[0]
    expected = [run(x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(run, sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for y, z in zip(results, expected, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    q, k, v = (t.detach() for t in inputs())
    run = lambda *x: nearest(*x, scale=0.7, top=4)
    assert torch.equal(torch.compile(run, backend="eager", fullgraph=True)(q, k, v, allowed()), run(q, k, v, allowed()))
