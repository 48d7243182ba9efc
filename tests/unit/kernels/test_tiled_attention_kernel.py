"""Attention by tiles computes the equation and its gradients, and moves as many numbers as the paper says."""

import pytest
import torch
from torch.testing import assert_close

from attentif.kernels.attention import attention_naive
from attentif.kernels.tiled_attention import count_traffic, plain_attention, tile_sizes, tiled_attention

CLOSE = {"rtol": 1e-11, "atol": 1e-11}  # float64: the same sums in another order


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fast", [4 * 5, 4 * 5 * 3, 10_000])  # one key a tile, three, all of them
def test_outputs_and_gradients_are_those_of_the_equation(causal: bool, fast: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 11, 5, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.ones(11, 11, dtype=torch.bool).tril() if causal else None
    expected = attention_naive(q, k, v, scale=0.4, mask=mask)
    weights = torch.randn_like(expected)
    theirs = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for y in (tiled_attention(q, k, v, scale=0.4, fast=fast, causal=causal), plain_attention(q, k, v, scale=0.4, causal=causal)):
        assert_close(y, expected, **CLOSE)
        for ours, other in zip(torch.autograd.grad((y * weights).sum(), (q, k, v)), theirs, strict=True):
            assert_close(ours, other, **CLOSE)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = (torch.full((1, 1, 6, 4), value) for value in (100.0, 100.0, 1.0))
    assert_close(tiled_attention(q, k, v, scale=1.0, fast=32), torch.ones(1, 1, 6, 4))


def test_the_traffic_is_that_of_the_algorithm_counted_by_hand() -> None:
    T, K, fast = 32, 4, 64  # tiles of 4 queries and 4 keys
    q, k, v = (torch.randn(1, 1, T, K) for _ in range(3))
    assert tile_sizes(K, fast) == (4, 4)
    with count_traffic() as traffic:
        tiled_attention(q, k, v, scale=0.5, fast=fast)
    tiles = T // 4
    assert traffic.read == 2 * T * K + tiles * (2 * T * K + 2 * T)
    assert traffic.written == tiles * (T * K + 2 * T)
    assert traffic.peak <= fast + 8 + 16  # a tile of each, its weights, and two numbers a query
    with count_traffic() as plain:
        plain_attention(q, k, v, scale=0.5)
    assert plain.total == 4 * T * T + 4 * T * K


def test_half_of_the_tiles_are_skipped_where_nothing_later_is_seen() -> None:
    q, k, v = (torch.randn(1, 1, 64, 4) for _ in range(3))
    totals = []
    for causal in (False, True):
        with count_traffic() as traffic:
            tiled_attention(q, k, v, scale=0.5, fast=64, causal=causal)
        totals.append(traffic.total)
    assert totals[1] < 0.6 * totals[0]


def test_a_memory_that_holds_no_tile_is_refused() -> None:
    q = torch.randn(1, 1, 4, 8)
    with pytest.raises(ValueError, match="does not hold"):
        tiled_attention(q, q, q, scale=1.0, fast=31)
