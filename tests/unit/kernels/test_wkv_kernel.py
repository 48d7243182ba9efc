"""WKV: three forms, one function."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.wkv import NOTHING, Runs, Sums, wkv, wkv_doubling, wkv_naive

FAST = [wkv, wkv_doubling]
D = 70  # more than one block, the last of them not full


def runs(*lengths: int, apart: int = 0) -> Runs:
    """Sequences end to end, or as rows with `apart` places of padding after each."""
    begins = torch.tensor([sum(lengths[:i]) + apart * i for i in range(len(lengths))])
    return Runs(begins, torch.tensor(lengths), max(lengths))


def inputs(B: int, N: int, width: int = D, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """w, u, k, v, p, q, o."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)
    values = [draw(width).exp(), draw(width), 2 * draw(N, width), draw(N, width), draw(B, width), draw(B, width).exp(), draw(B, width)]
    return [value.to(dtype).requires_grad_(number < 6) for number, value in enumerate(values)]


def everything(form: Callable[..., tuple[Tensor, Sums]], x: list[Tensor], where: Runs) -> tuple[Tensor, ...]:
    """The outputs, and what the sums after the sequences are, however they are written."""
    y, after = form(*x[:4], Sums(*x[4:]), where)
    return y, after.p / after.q, after.q.log() + after.o


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("where", [runs(1), runs(2, 1), runs(37, 64, 1, 5), runs(33, 7, apart=4), runs(3, 0, 4, apart=1)], ids=str)
def test_outputs_sums_and_gradients_equal_the_definition(form: Callable[..., tuple[Tensor, Sums]], where: Runs) -> None:
    N = int((where.begins + where.lengths).max()) + 2
    x = inputs(len(where.lengths), N)
    fast, naive = everything(form, x, where), everything(wkv_naive, x, where)
    assert_close(fast, naive, rtol=1e-11, atol=1e-11)
    generator = torch.Generator().manual_seed(1)
    probes = [torch.randn(y.shape, dtype=y.dtype, generator=generator) for y in naive]
    gradients = [torch.autograd.grad(sum((y * p).sum() for y, p in zip(ys, probes, strict=True)), x[:6]) for ys in (fast, naive)]
    assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FAST)
def test_an_empty_memory_is_the_beginning_of_a_text(form: Callable[..., tuple[Tensor, Sums]]) -> None:
    x = inputs(2, 12)[:4]
    empty, where = Sums.empty(2, D, device=torch.device("cpu"), dtype=torch.float64), runs(7, 5)
    y, _ = form(*x, empty, where)
    assert_close(y, wkv_naive(*x, empty, where)[0], rtol=1e-12, atol=1e-12)
    assert torch.equal(y[0], x[3][0])  # the first token sees itself alone
    assert torch.autograd.grad(y.square().sum(), x)[2].isfinite().all()


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: Callable[..., tuple[Tensor, Sums]]) -> None:
    x = inputs(2, 8, width=3)
    assert torch.autograd.gradcheck(lambda *given: everything(form, [*given, x[6]], runs(3, 4)), x[:6])


@pytest.mark.parametrize("length", [1, 40])
def test_without_gradients_the_result_is_the_same(length: int) -> None:
    x = [t.detach() for t in inputs(1, length)]
    with torch.no_grad():
        bare = everything(wkv, x, runs(length))
    assert_close(bare, everything(wkv, x, runs(length)), rtol=0, atol=0)


def test_two_pieces_equal_the_whole() -> None:
    x = inputs(1, 50)
    first, between = wkv(*x[:2], x[2][:20], x[3][:20], Sums(*x[4:]), runs(20))
    second, _ = wkv(*x[:2], x[2][20:], x[3][20:], between, runs(30))
    whole, _ = wkv(*x[:4], Sums(*x[4:]), runs(50))
    pieces = torch.cat([first, second])
    assert_close(pieces, whole, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(y.square().sum(), x[:6]) for y in (pieces, whole)]
    assert_close(*gradients, rtol=1e-11, atol=1e-11)


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(2, 600, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() for t in single]
    where = runs(300, 300)
    # a mean of values near 1 whose weights each carry a few roundings of 6e-8, and as many again from the polynomial exp
    y, expected = everything(wkv, single, where)[0], everything(wkv_naive, double, where)[0]
    assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(y.square().sum(), single[:6])
    exact = torch.autograd.grad(expected.square().sum(), double[:6])
    for ours, theirs in zip(gradients, exact, strict=True):  # those of w and u are sums over 600 tokens
        assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


def test_keys_that_would_overflow_do_not() -> None:
    x = inputs(1, 40, dtype=torch.float32)
    with torch.no_grad():
        x[2] *= 200
    y, ratio, _ = everything(wkv, x, runs(40))
    assert y.isfinite().all()
    assert ratio.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(y.square().sum(), x[:6]))


def test_places_outside_every_sequence_are_zero_and_give_no_gradient() -> None:
    x = inputs(2, 14)
    y, _ = wkv(*x[:4], Sums(*x[4:]), runs(4, 5, apart=2))
    outside = torch.tensor([4, 5, 11, 12, 13])
    assert torch.count_nonzero(y[outside]) == 0
    for gradient in torch.autograd.grad(y.square().sum(), x[2:4]):
        assert torch.count_nonzero(gradient[outside]) == 0


def test_a_sequence_without_tokens_keeps_its_memory() -> None:
    x = inputs(2, 3)
    _, after = wkv(*x[:4], Sums(*x[4:]), runs(3, 0))
    for new, old in zip(after, x[4:], strict=True):
        assert torch.equal(new[1], old[1])
    _, still = wkv(*x[:4], Sums.empty(2, D, device=torch.device("cpu"), dtype=torch.float64), runs(3, 0))
    assert (still.o[1] == NOTHING).all()


def test_three_threads_at_once_get_what_one_gets() -> None:
    where = runs(33, 20)
    sets = [inputs(2, 53, seed=seed) for seed in range(3)]

    def both(x: list[Tensor]) -> list[Tensor]:
        outputs = everything(wkv, x, where)
        return [*outputs, *torch.autograd.grad(sum(y.sum() for y in outputs), x[:6])]

    expected = [both(x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(both, sets)) for _ in range(20)):
            assert all(torch.equal(y, z) for one, other in zip(results, expected, strict=True) for y, z in zip(one, other, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    x = [t.detach() for t in inputs(1, 20)]
    where = runs(20)
    call = lambda *given: wkv(*given[:4], Sums(*given[4:]), where)[0]
    assert torch.equal(torch.compile(call, backend="eager", fullgraph=True)(*x), call(*x))
