"""The fused form computes the equation, and its gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.attention import attention, attention_naive, attention_weights

B, H, T, S, K = 3, 4, 9, 13, 5
CLOSE = {"rtol": 1e-11, "atol": 1e-11}  # float64: two orders of the same sums


def tensors(groups: int = H, queries: int = T, keys: int = S) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(B, H, queries, K), (B, groups, keys, K), (B, groups, keys, K)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def mask(*shape: int) -> Tensor:
    torch.manual_seed(1)
    allowed = torch.rand(shape) < 0.6
    allowed[..., 0] = True  # every query may look somewhere
    return allowed


def bias(*shape: int) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(shape, dtype=torch.float64)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask": {"mask": mask(B, 1, T, S)},
    "mask for every head": {"mask": mask(B, H, T, S)},
    "mask of keys": {"mask": mask(B, 1, 1, S)},
    "bias": {"bias": bias(1, H, T, S)},
    "bias of each row": {"bias": bias(B, H, T, S)},
    "softcap": {"softcap": 0.8},
    "mask and bias": {"mask": mask(B, 1, 1, S), "bias": bias(1, H, T, S)},
    "all": {"mask": mask(1, 1, T, S), "bias": bias(H, T, S), "softcap": 0.8},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_the_fast_form_equals_the_naive_one_in_output_and_gradients(name: str, groups: int) -> None:
    inputs, options = tensors(groups), OPTIONS[name]
    wanted = list(inputs)
    if "bias" in options:
        options = options | {"bias": options["bias"].clone().requires_grad_()}
        wanted.append(options["bias"])
    fast, naive = attention(*inputs, scale=0.7, **options), attention_naive(*inputs, scale=0.7, **options)
    assert_close(fast, naive, **CLOSE)
    probe = torch.randn(fast.shape, dtype=torch.float64)
    assert_close(torch.autograd.grad((fast * probe).sum(), wanted), torch.autograd.grad((naive * probe).sum(), wanted), **CLOSE)


@pytest.mark.parametrize("name", OPTIONS)
def test_causal_adds_the_triangle_to_whatever_else_is_asked(name: str) -> None:
    inputs = tensors(queries=9, keys=9)
    options = {key: value[..., :9] if isinstance(value, Tensor) else value for key, value in OPTIONS[name].items()}
    triangle = torch.ones(9, 9, dtype=torch.bool).tril()
    both = triangle & options["mask"] if "mask" in options else triangle
    fast = attention(*inputs, scale=0.7, causal=True, **options)
    assert_close(fast, attention_naive(*inputs, scale=0.7, **(options | {"mask": both})), **CLOSE)


@pytest.mark.parametrize("options", [{}, {"bias": bias(1, H, T, S)}, {"softcap": 2.0}])
def test_a_query_that_may_look_nowhere_gives_zero_and_finite_gradients(options: dict[str, Any]) -> None:
    inputs, allowed = tensors(), mask(B, 1, T, S)
    allowed[1, :, 3] = False
    for form in (attention, attention_naive):
        y = form(*inputs, scale=0.7, mask=allowed, **options)
        assert torch.count_nonzero(y[1, :, 3]) == 0
        assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(y.square().sum(), inputs))


def test_the_soft_cap_is_the_same_whatever_the_number_of_queries() -> None:
    q, k, v = tensors(queries=600, keys=600)  # more than one chunk
    together = attention(q, k, v, scale=0.5, causal=True, softcap=1.0)
    triangle = torch.ones(600, 600, dtype=torch.bool).tril()
    assert_close(together, attention_naive(q, k, v, scale=0.5, mask=triangle, softcap=1.0), **CLOSE)


def test_weights_of_a_query_sum_to_one_over_what_it_may_see() -> None:
    q, k, _ = tensors(groups=2)
    allowed = mask(B, 1, T, S)
    weights = attention_weights(q, k, scale=0.7, mask=allowed)
    assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64), **CLOSE)
    assert torch.count_nonzero(weights.masked_select(~allowed)) == 0


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_dropout_drops_weights_and_keeps_their_mean(softcap: float | None) -> None:
    torch.manual_seed(0)
    q, k = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 4000, 4)
    y = attention(q, k, torch.ones(1, 1, 4000, 1).expand(-1, -1, -1, 4), scale=1.0, softcap=softcap, dropout=0.5)
    assert 0.9 < y.mean() < 1.1
    assert y.mean() != 1.0
