"""Gated linear attention: the recurrence compiled, by chunks, and as a matrix."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.gated_linear import gated_linear, gated_linear_chunkwise, gated_linear_naive, gated_linear_weights

FAST = [gated_linear, gated_linear_chunkwise]
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


def inputs(B: int = 2, T: int = 37, K: int = 5, V: int = 70, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """Decays between e⁻² and 1, and a state that has seen something."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)
    g = -2 * draw(B, T, 2, K).sigmoid()
    x = [draw(B, T, 2, K), draw(B, T, 2, K), draw(B, T, 2, V), g, draw(B, 2, K, V)]
    return [t.to(dtype).requires_grad_() for t in x]


def gradients(outputs: Any, x: list[Tensor]) -> tuple[Tensor, ...]:
    probes = [torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(y.dtype) for y in outputs]
    return torch.autograd.grad(sum((y * p).sum() for y, p in zip(outputs, probes, strict=True)), x)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("T", [1, 2, 16, 64, 150])
def test_outputs_states_and_gradients_equal_the_definition(form: Any, T: int) -> None:
    x = inputs(T=T)
    fast, naive = form(*x), gated_linear_naive(*x)
    assert_close(fast, naive, **CLOSE)
    assert_close(gradients(fast, x), gradients(naive, x), **CLOSE)


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: Any) -> None:
    assert torch.autograd.gradcheck(form, inputs(B=1, T=5, K=2, V=3))


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(T=300, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() for t in single]
    fast, naive = gated_linear(*single), gated_linear_naive(*double)
    # states of a few units that forget within some ten steps, products of K = 5 of them; gradients of keys sum V = 70 products,
    # and those of decays sum up to 64 differences of these
    assert_close([y.double() for y in fast], list(naive), rtol=1e-5, atol=1e-5)
    assert_close([g.double() for g in gradients(fast, single)], list(gradients(naive, double)), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("form", FAST)
def test_the_strongest_decays_neither_overflow_nor_lose_what_remains(form: Any) -> None:
    q, k, v, g, state = (t.detach() for t in inputs(T=100, dtype=torch.float32))
    g[:, 40] = -200.0  # forgets everything: e⁻²⁰⁰ is 0 in float32
    g[:, 50:60] = 0.0  # keeps everything
    y, last = form(q, k, v, g, state)
    assert y.isfinite().all()
    assert last.isfinite().all()
    after, _ = form(*(t[:, 40:] for t in (q, k, v, g)), torch.zeros_like(state))
    assert_close(y[:, 40:], after, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FAST)
def test_no_decay_and_a_key_of_zeros_leave_the_state_as_it_is(form: Any) -> None:
    q, k, v, g, state = (t.detach() for t in inputs())
    k[:, 20:], g[:, 20:] = 0, 0
    last = form(q, k, v, g, state)[1]
    assert_close(last, form(*(t[:, :20] for t in (q, k, v, g)), state)[1], **CLOSE)


def test_weights_times_values_are_the_output() -> None:
    q, k, v, g, state = (t.detach() for t in inputs())
    places = torch.arange(37).expand(2, 37)
    weights = gated_linear_weights(q, k, g, places)
    y, _ = gated_linear(q, k, v, g, torch.zeros_like(state))
    assert_close((weights @ v.transpose(1, 2)).transpose(1, 2), y, **CLOSE)
    assert_close(gated_linear_weights(q[:, 30:], k, g, places[:, 30:]), weights[:, :, 30:], **CLOSE)


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [inputs(seed=seed) for seed in range(3)]
    expected = [gradients(gated_linear(*x), x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: gradients(gated_linear(*x), x), sets)) for _ in range(10)):
            assert_close(results, expected, rtol=0, atol=0)


def test_a_compiled_graph_holds_the_kernel() -> None:
    x = [t.detach() for t in inputs()]
    assert_close(torch.compile(gated_linear, backend="eager", fullgraph=True)(*x), gated_linear(*x), rtol=0, atol=0)
