"""RWKV-7's recurrence: three forms, one function."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.delta_rule import delta_rule, delta_rule_doubling, delta_rule_naive
from attentif.kernels.wkv import Runs

FAST = [delta_rule, delta_rule_doubling]
Form = Callable[..., tuple[Tensor, Tensor]]


def runs(*lengths: int, apart: int = 0) -> Runs:
    """Sequences end to end, or as rows with `apart` places of padding after each."""
    begins = torch.tensor([sum(lengths[:i]) + apart * i for i in range(len(lengths))])
    return Runs(begins, torch.tensor(lengths), max(lengths))


def inputs(B: int, N: int, H: int = 2, K: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """r, w, k, v, a, b and the memory before, as RWKV-7 makes them: keys that are taken out have length 1."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)
    kappa = torch.nn.functional.normalize(draw(N, H, K), dim=-1)
    w, rate = torch.exp(-0.6 * draw(N, H, K).sigmoid()), draw(N, H, K).sigmoid()
    values = [draw(N, H, K), w, draw(N, H, K), draw(N, H, K), -kappa, kappa * rate, draw(B, H, K, K)]
    return [value.to(dtype).requires_grad_() for value in values]


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("where", [runs(1), runs(2, 1), runs(37, 16, 1, 5), runs(33, 7, apart=4), runs(3, 0, 4, apart=1)], ids=str)
def test_outputs_memories_and_gradients_equal_the_definition(form: Form, where: Runs) -> None:
    N = int((where.begins + where.lengths).max()) + 2
    x = inputs(len(where.lengths), N)
    fast, naive = form(*x, where), delta_rule_naive(*x, where)
    assert_close(fast, naive, rtol=1e-11, atol=1e-11)
    generator = torch.Generator().manual_seed(1)
    probes = [torch.randn(y.shape, dtype=y.dtype, generator=generator) for y in naive]
    gradients = [torch.autograd.grad(sum((y * p).sum() for y, p in zip(ys, probes, strict=True)), x) for ys in (fast, naive)]
    assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: Form) -> None:
    assert torch.autograd.gradcheck(lambda *x: form(*x, runs(3, 4)), inputs(2, 8, H=1, K=2))


@pytest.mark.parametrize("length", [1, 40])
def test_without_gradients_the_result_is_the_same(length: int) -> None:
    x = [t.detach() for t in inputs(1, length)]
    with torch.no_grad():
        bare = delta_rule(*x, runs(length))
    assert_close(bare, delta_rule(*x, runs(length)), rtol=0, atol=0)


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(2, 200, K=16, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() for t in single]
    where = runs(100, 100)
    # memories that forget within some 5 steps, sums of 16 products near 1: a few dozen roundings of 6e-8 on numbers near 10
    y, expected = delta_rule(*single, where)[0], delta_rule_naive(*double, where)[0]
    assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)
    gradients, exact = torch.autograd.grad(y.sum(), single), torch.autograd.grad(expected.sum(), double)
    for ours, theirs in zip(gradients, exact, strict=True):
        assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-3)


def test_what_was_stored_under_a_key_is_replaced() -> None:
    """The delta rule: with nothing forgotten and α = 1, writing under the same key takes the old value out."""
    key = torch.nn.functional.normalize(torch.randn(1, 1, 4, dtype=torch.float64), dim=-1).expand(2, 1, 4)
    v = torch.randn(2, 1, 4, dtype=torch.float64)
    y, _ = delta_rule(key, torch.ones_like(key), key, v, -key, key, torch.zeros(1, 1, 4, 4, dtype=torch.float64), runs(2))
    assert_close(y, v)


def test_three_threads_at_once_get_what_one_gets() -> None:
    where = runs(33, 20)
    sets = [inputs(2, 53, seed=seed) for seed in range(3)]

    def both(x: list[Tensor]) -> list[Tensor]:
        outputs = delta_rule(*x, where)
        return [*outputs, *torch.autograd.grad(sum(y.sum() for y in outputs), x)]

    expected = [both(x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(both, sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for one, other in zip(results, expected, strict=True) for y, z in zip(one, other, strict=True))
