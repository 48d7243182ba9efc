"""Hashing, sorting and attention inside chunks: fast forms and definitions, one function."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.chunked import Chunks, chunked_attention, chunked_attention_gather, chunked_attention_naive, chunked_weights
from attentif.kernels.lsh import bucket_factors, lsh_buckets, lsh_buckets_naive, lsh_order, lsh_order_naive

FAST = [chunked_attention, chunked_attention_gather]
WAYS = [
    Chunks(8, 1, 0, True, False),
    Chunks(8, 1, 1, False, True),
    Chunks(5, 1, 0, False, False),
    Chunks(8, 0, 0, True, True),
    Chunks(4, 3, 2, False, False),
]
LENGTHS = (13, 1, 37, 8, 0, 20)
ROOM = 40


def inputs(T: int = 20, H: int = 2, K: int = 6, R: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(T, H, K, dtype=torch.float64, generator=generator).to(dtype).requires_grad_() for _ in range(3)]
    order = torch.stack([torch.stack([torch.randperm(T, generator=generator) for _ in range(R)]) for _ in range(H)])
    return [*tensors, order.int()]


def one_row(T: int) -> Tensor:
    return torch.tensor([[0, T, 0, 0, T]])


def alone(form: Any, q: Tensor, k: Tensor, v: Tensor, order: Tensor, how: Chunks) -> Tensor:
    return form(q, k, v, order.flatten(), one_row(len(q)), how)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("T", [1, 5, 8, 9, 37])
def test_attention_and_its_gradients_equal_the_definition(form: Any, how: Chunks, T: int) -> None:
    *tensors, order = inputs(T)
    probe = torch.randn(T, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    fast, naive = alone(form, *tensors, order, how), chunked_attention_naive(*tensors, order, how)
    assert_close(fast, naive, rtol=1e-12, atol=1e-12)
    assert_close(
        torch.autograd.grad((fast * probe).sum(), tensors), torch.autograd.grad((naive * probe).sum(), tensors), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("how", WAYS[:3])
def test_gradients_are_those_of_finite_differences(form: Any, how: Chunks) -> None:
    *tensors, order = inputs(11, 1, 3, 2)
    assert torch.autograd.gradcheck(lambda *t: alone(form, *t, order, how), tensors)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("packed", [True, False])
def test_many_sequences_at_once_equal_each_alone(form: Any, packed: bool) -> None:
    """End to end, or with padding that holds anything between them; only the last tokens of some are queries."""
    how, rooms = WAYS[0], LENGTHS if packed else (ROOM,) * len(LENGTHS)
    starts = [length // 3 for length in LENGTHS]
    begins = torch.tensor([0, *rooms]).cumsum(0)
    q, k, v = (torch.full((int(begins[-1]), 2, 6), 1e6, dtype=torch.float64) for _ in range(3))
    order = torch.full((int(begins[-1]) * 6,), -7, dtype=torch.int32)
    rows, expected = [], torch.zeros_like(q)
    for begin, length, start, room in zip(begins.tolist(), LENGTHS, starts, rooms, strict=False):
        *own, own_order = inputs(length, seed=length)
        for whole, part in zip((q, k, v), own, strict=True):
            whole[begin : begin + length] = part.detach()
        q[begin : begin + length - start] = own[0][start:].detach()
        order[begin * 6 : (begin + room) * 6].view(2, 3, room)[..., :length] = own_order
        rows.append([begin, length, begin, start, room])
        if length:
            expected[begin : begin + length - start] = chunked_attention_naive(*own, own_order, how)[start:]
    assert_close(form(q, k, v, order, torch.tensor(rows), how), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("how", WAYS)
def test_weights_reproduce_the_output(how: Chunks) -> None:
    q, k, v, order = (t.detach() for t in inputs(37))
    weights = chunked_weights(q, k, order.flatten(), one_row(37)[0], how)
    assert_close(torch.einsum("hts,shk->thk", weights, v), chunked_attention_naive(q, k, v, order, how), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("how", WAYS[:3])
def test_float32_stays_within_rounding_of_float64(how: Chunks) -> None:
    *single, order = inputs(200, 2, 32, 4, torch.float32)
    double = [t.detach().double().requires_grad_() for t in single]
    probe = torch.randn(200, 2, 32, generator=torch.Generator().manual_seed(1))
    fast, naive = alone(chunked_attention, *single, order, how), chunked_attention_naive(*double, order, how)
    # scores near 6 are sums of 32 products, each rounded to 6e-8 of itself; their exponentials (the polynomial's error is smaller) keep
    # some 1e-6, and so do sums of a few dozen of them
    assert_close(fast.double(), naive, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad((fast * probe).sum(), single)
    assert_close([g.double() for g in gradients], list(torch.autograd.grad((naive * probe).sum(), double)), rtol=1e-4, atol=1e-4)


def test_a_token_alone_sees_itself_in_float32_too() -> None:
    *tensors, order = inputs(20, dtype=torch.float32)
    y = alone(chunked_attention, *tensors, order, WAYS[0])
    assert_close(y[0], tensors[2][0], rtol=1e-6, atol=0)  # the same number some times over, and divided by how often
    (dv,) = torch.autograd.grad(y[0].sum(), tensors[2])
    assert_close(dv[0], torch.ones_like(dv[0]), rtol=1e-6, atol=0)
    assert torch.count_nonzero(dv[1:]) == 0


def test_without_gradients_the_result_is_the_same_to_the_bit() -> None:
    *tensors, order = inputs(37)
    with torch.no_grad():
        bare = alone(chunked_attention, *tensors, order, WAYS[0])
    assert torch.equal(bare, alone(chunked_attention, *tensors, order, WAYS[0]))


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [[t.detach() for t in inputs(60, seed=seed)] for seed in range(3)]

    def both(tensors: list[Tensor]) -> tuple[Tensor, ...]:
        q, k, v, order = tensors
        wanted = [t.clone().requires_grad_() for t in (q, k, v)]
        y = alone(chunked_attention, *wanted, order, WAYS[0])
        return (y.detach(), *torch.autograd.grad(y.square().sum(), wanted), hashed(q))

    expected = [both(tensors) for tensors in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(both, sets)) for _ in range(10)):
            assert all(torch.equal(a, b) for ours, known in zip(results, expected, strict=True) for a, b in zip(ours, known, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    *tensors, order = (t.detach() for t in inputs(37))
    call = torch.compile(lambda *t: alone(chunked_attention, *t, order, WAYS[0]), backend="eager", fullgraph=True)
    assert torch.equal(call(*tensors), alone(chunked_attention, *tensors, order, WAYS[0]))


def rotations(H: int, R: int, K: int, factors: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(H, R, K, sum(factors) // 2, dtype=dtype, generator=torch.Generator().manual_seed(9))


def hashed(x: Tensor, factors: tuple[int, ...] = (4, 6), rounds: int = 3) -> Tensor:
    """(H, R, T), of one sequence."""
    T, H, K = x.shape
    out = torch.empty(T * H * rounds, dtype=torch.int32)
    lsh_buckets(x, rotations(H, rounds, K, factors, x.dtype), factors, one_row(T), out)
    return out.view(H, rounds, T)


@pytest.mark.parametrize("factors", [(2,), (16,), (4, 6), (2, 2, 8)])
@pytest.mark.parametrize("T", [1, 3, 4, 50])
def test_buckets_are_those_of_the_equation(factors: tuple[int, ...], T: int) -> None:
    x = inputs(T)[0].detach()
    assert torch.equal(hashed(x, factors), lsh_buckets_naive(x, rotations(2, 3, 6, factors), factors))
    assert torch.equal(hashed(3 * x, factors), hashed(x, factors))


def test_what_points_the_same_way_falls_into_the_same_bucket() -> None:
    """The hash is worth its name: neighbours share a bucket far more often than strangers."""
    x = torch.randn(500, 1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    near = x + 0.1 * torch.randn(500, 1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    same = (hashed(x, (16,), 8) == hashed(near, (16,), 8)).double().mean()
    strange = (hashed(x, (16,), 8) == hashed(near.roll(1, 0), (16,), 8)).double().mean()
    assert same > 0.7
    assert strange < 0.15


@pytest.mark.parametrize("seed", range(3))
def test_tokens_are_sorted_by_bucket_then_place(seed: int) -> None:
    buckets = torch.randint(5, (2, 3, 40), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))
    order = lsh_order(buckets.flatten(), one_row(40), 2, 3, 5).view(2, 3, 40)
    assert torch.equal(order, lsh_order_naive(buckets))
    assert torch.equal(order.sort(-1).values, torch.arange(40, dtype=torch.int32).expand(2, 3, 40))


def test_only_new_tokens_are_hashed() -> None:
    x, factors = inputs(20)[0].detach(), (8,)
    out = torch.full((20 * 6,), -1, dtype=torch.int32)
    lsh_buckets(x, rotations(2, 3, 6, factors), factors, torch.tensor([[0, 18, 0, 7, 20]]), out)
    part = out.view(2, 3, 20)
    assert torch.equal(part[..., 7:18], hashed(x, factors)[..., 7:18])
    assert (part[..., :7] == -1).all()
    assert (part[..., 18:] == -1).all()


@pytest.mark.parametrize(
    ("length", "chunk", "factors"),
    [(1, 64, (2,)), (127, 64, (2,)), (128, 64, (4,)), (4096, 64, (128,)), (16384, 64, (16, 32)), (8, 1, (4, 4))],
)
def test_buckets_hold_half_a_chunk_and_are_factored_when_they_are_many(length: int, chunk: int, factors: tuple[int, ...]) -> None:
    assert bucket_factors(length, chunk) == factors
