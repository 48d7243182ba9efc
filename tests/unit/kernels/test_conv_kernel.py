"""The short causal convolution: three forms, one function, over padded and packed sequences."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.conv import causal_conv, causal_conv_gather, causal_conv_naive, next_tail

FAST = [causal_conv, causal_conv_gather]
PACKED = ([0, 9, 9, 10], [9, 0, 1, 13])  # where sequences begin, their lengths; N = 23
PADDED = ([0, 10, 20], [10, 2, 7])  # N = 30, some places empty


def inputs(
    layout: tuple[list[int], list[int]] = PACKED, W: int = 4, D: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    """x, weight, bias and tail; and the layout."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_()
    first, lengths = map(torch.tensor, layout)
    N = 23 if layout is PACKED else 30
    return [draw(N, D), draw(D, W), draw(D), draw(len(first), W - 1, D)], (first, lengths)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("layout", [PACKED, PADDED])
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize(("W", "D"), [(4, 5), (1, 3), (2, 140)])
def test_output_and_gradients_equal_the_definition(form: object, layout: tuple[list[int], list[int]], silu: bool, W: int, D: int) -> None:
    x, places = inputs(layout, W, D)
    fast, naive = form(*x, *places, silu), causal_conv_naive(*x, *places, silu)
    probe = torch.randn(fast.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(fast, naive, rtol=1e-12, atol=1e-12)
    assert_close(torch.autograd.grad((fast * probe).sum(), x), torch.autograd.grad((naive * probe).sum(), x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("silu", [False, True])
def test_gradients_are_those_of_finite_differences(form: object, silu: bool) -> None:
    x, places = inputs(W=3, D=2)
    assert torch.autograd.gradcheck(lambda *args: form(*args, *places, silu), x)


@pytest.mark.parametrize("silu", [False, True])
def test_float32_stays_within_rounding_of_float64(silu: bool) -> None:
    single, places = inputs(PADDED, D=70, dtype=torch.float32)
    double = [t.detach().double() for t in single]
    # four products and a bias near 1, each rounded to 6e-8
    assert_close(causal_conv(*single, *places, silu).double(), causal_conv_naive(*double, *places, silu), rtol=2e-6, atol=2e-6)


def test_without_a_bias() -> None:
    (x, weight, _, tail), places = inputs()
    assert_close(causal_conv(x, weight, None, tail, *places), causal_conv_naive(x, weight, None, tail, *places))


@pytest.mark.parametrize("W", [1, 2, 4])
@pytest.mark.parametrize("T", [1, 2, 3, 8])
def test_the_next_tail_is_the_newest_of_the_tail_and_the_tokens(W: int, T: int) -> None:
    x, tail = torch.randn(3, T, 2), torch.randn(3, W - 1, 2)
    lengths = torch.tensor([T, 0, max(0, T - 1)])
    ragged = next_tail(x, tail, lengths, dense=False)
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(ragged[row], torch.cat([tail[row], x[row, :length]])[length:])
    assert torch.equal(next_tail(x, tail, torch.tensor([T] * 3), dense=True), torch.cat([tail, x], 1)[:, T:])


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [([t.detach() for t in x], places) for x, places in (inputs(D=300, seed=seed) for seed in range(3))]
    expected = [causal_conv(*x, *places) for x, places in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda one: causal_conv(*one[0], *one[1]), sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for y, z in zip(results, expected, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    x, places = inputs()
    x = [t.detach() for t in x]
    assert torch.equal(torch.compile(causal_conv, backend="eager", fullgraph=True)(*x, *places), causal_conv(*x, *places))
