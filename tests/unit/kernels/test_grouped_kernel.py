"""Rows sorted by group, one product a group: the same as a loop over the tokens."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.grouped import dispatch, grouped_linear, grouped_linear_naive, mixture, mixture_naive

E, D, O = 5, 6, 7  # noqa: E741
SIZES = [[3, 0, 4, 1, 2], [0, 0, 9, 0, 0], [0, 0, 0, 0, 0]]


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def routed(tokens: int, k: int, seed: int = 0) -> Tensor:
    """Different groups for each token; the last group gets none."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(tokens, E - 1, generator=generator).argsort(1)[:, :k]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_a_group_equals_a_row_at_a_time(sizes: list[int], biased: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = drawn(sum(sizes), D), drawn(E, O, D), drawn(E, O) if biased else None
    wanted = [t for t in (x, weight, bias) if t is not None]
    fast, naive = grouped_linear(x, weight, bias, sizes), grouped_linear_naive(x, weight, bias, sizes)
    assert_close(fast, naive)
    probe = torch.randn_like(fast)
    if sum(sizes):
        assert_close(torch.autograd.grad((fast * probe).sum(), wanted), torch.autograd.grad((naive * probe).sum(), wanted))
    with torch.no_grad():
        assert_close(grouped_linear(x, weight, bias, sizes), naive)


def test_gradients_of_a_product_a_group_agree_with_differences() -> None:
    torch.manual_seed(0)
    args = (drawn(10, D), drawn(E, O, D), drawn(E, O))
    assert torch.autograd.gradcheck(lambda *t: grouped_linear(*t, SIZES[0]), args)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_sorted_tokens_equal_a_loop_over_them(k: int) -> None:
    torch.manual_seed(0)
    x, weights, matrices = drawn(11, D), drawn(11, k), drawn(E, D, D)
    chosen = routed(11, k)
    fast = mixture(x, chosen, weights, E, lambda rows, sizes: grouped_linear(rows, matrices, None, sizes).tanh())
    naive = mixture_naive(x, chosen, weights, lambda row, group: (matrices[group] @ row).tanh())
    assert_close(fast, naive)
    probe = torch.randn_like(fast)
    wanted = [x, weights, matrices]
    assert_close(torch.autograd.grad((fast * probe).sum(), wanted), torch.autograd.grad((naive * probe).sum(), wanted))


def test_gradients_of_a_mixture_agree_with_differences() -> None:
    torch.manual_seed(0)
    chosen = routed(6, 2)

    def function(x: Tensor, weights: Tensor, matrices: Tensor) -> Tensor:
        return mixture(x, chosen, weights, E, lambda rows, sizes: grouped_linear(rows, matrices, None, sizes))

    assert torch.autograd.gradcheck(function, (drawn(6, D), drawn(6, 2), drawn(E, D, D)))


def test_no_token_is_a_batch_too() -> None:
    x, weights, matrices = drawn(0, D), drawn(0, 2), drawn(E, D, D)
    y = mixture(x, torch.empty(0, 2, dtype=torch.long), weights, E, lambda rows, sizes: grouped_linear(rows, matrices, None, sizes))
    assert y.shape == (0, D)
    y.sum().backward()
    assert matrices.grad is not None
    assert torch.count_nonzero(matrices.grad) == 0


def test_every_choice_has_its_row_and_none_is_dropped() -> None:
    chosen = torch.zeros(50, 2, dtype=torch.long)  # all want the same: there is no limit
    chosen[:, 1] = 3
    plan = dispatch(chosen, E)
    assert plan.sizes == [50, 0, 0, 50, 0]
    assert plan.tokens.tolist() == [*range(50), *range(50)]
    assert plan.rows.view(50, 2).tolist() == [[token, 50 + token] for token in range(50)]


def test_float32_is_near_the_float64_definition() -> None:
    """Sums of 64 products near 1: float32 rounds each to 6e-8 of its size, 1e-5 leaves room."""
    torch.manual_seed(0)
    x, weights, matrices, chosen = torch.randn(40, 64), torch.rand(40, 2), torch.randn(E, 64, 64) / 8, routed(40, 2)
    fast = mixture(x, chosen, weights, E, lambda rows, sizes: grouped_linear(rows, matrices, None, sizes))
    wide = matrices.double()
    naive = mixture_naive(x.double(), chosen, weights.double(), lambda row, group: wide[group] @ row)
    assert_close(fast.double(), naive, rtol=1e-5, atol=1e-5)


def test_three_threads_at_once_get_their_own_results() -> None:
    def work(seed: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        x, weights, matrices = (torch.randn(*shape, generator=generator).requires_grad_() for shape in ((64, D), (64, 2), (E, D, D)))
        y = mixture(x, routed(64, 2, seed), weights, E, lambda rows, sizes: grouped_linear(rows, matrices, None, sizes))
        return y, *torch.autograd.grad(y.square().sum(), [x, weights, matrices])

    expected = [work(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(5):
            for one, other in zip(pool.map(work, range(3)), expected, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
