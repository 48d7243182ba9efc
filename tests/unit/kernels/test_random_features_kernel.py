"""FAVOR+: positive orthogonal features, and what they are an estimate of."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from attentif.kernels.attention import attention_naive
from attentif.kernels.linear_attention import linear_attention
from attentif.kernels.random_features import key_constant, orthogonal_directions, softmax_features, softmax_features_naive

K = 8


def directions(features: int, seed: int = 0) -> torch.Tensor:
    return orthogonal_directions(features, K, torch.Generator().manual_seed(seed))


def vectors(seed: int, T: int = 12) -> torch.Tensor:
    """Short ones: the variance of an estimate of exp(q·k) grows like exp(‖q + k‖²)."""
    return torch.randn(2, 3, T, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 0.5 * K**-0.25


def key_features(k: torch.Tensor, w: torch.Tensor, eps: float, *, whole: bool, valid: torch.Tensor | None = None) -> torch.Tensor:
    return softmax_features(k, w, eps, key_constant(k, w, whole=whole, valid=valid), valid)


def test_directions_of_a_block_are_orthogonal_with_gaussian_lengths() -> None:
    w = directions(20)
    assert w.shape == (20, K)
    for block in (w[:8], w[8:16], w[16:]):
        product = block @ block.mT
        assert_close(product, torch.diag(product.diagonal()), rtol=0, atol=1e-12)
    assert_close(directions(4000).square().sum(1).mean(), torch.tensor(float(K), dtype=torch.float64), rtol=0.05, atol=0)
    assert torch.equal(directions(20), directions(20))
    assert not torch.equal(directions(20), directions(20, seed=1))


def test_the_product_of_features_is_the_exponential_on_average() -> None:
    q, k = vectors(1), vectors(2)
    exact = torch.exp(q @ k.mT)
    w = directions(50_000)
    assert_close(softmax_features_naive(q, w) @ softmax_features_naive(k, w).mT, exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("whole", [True, False])
def test_constants_cancel_in_the_normalised_sum(whole: bool) -> None:
    q, k, v, w = vectors(1), vectors(2), vectors(3), directions(30)
    plain = linear_attention(softmax_features_naive(q, w), softmax_features_naive(k, w), v, causal=True, eps=0.0)[0]
    assert_close(linear_attention(softmax_features(q, w, 0.0), key_features(k, w, 0.0, whole=whole), v, causal=True, eps=0.0)[0], plain)


@pytest.mark.parametrize("causal", [True, False])
def test_favor_converges_to_softmax_attention_as_features_grow(causal: bool) -> None:
    q, k, v = vectors(1), vectors(2), vectors(3)
    mask = torch.ones(12, 12, dtype=torch.bool).tril() if causal else None
    exact = attention_naive(q, k, v, scale=1.0, mask=mask)
    errors = []
    for features in (16, 256, 4096):
        drawn = []
        for seed in range(4):
            w = directions(features, seed)
            y = linear_attention(softmax_features(q, w, 0.0), key_features(k, w, 0.0, whole=not causal), v, causal=causal, eps=0.0)[0]
            drawn.append(float((y - exact).square().mean().sqrt()))
        errors.append(sum(drawn) / len(drawn))
    # the error of a mean of M terms falls as 1/√M: 4 for each factor of 16; half of it leaves room for chance
    assert all(later < earlier / 2 for earlier, later in pairwise(errors)), errors
    assert errors[-1] < 0.01


@pytest.mark.parametrize("whole", [True, False])
def test_large_keys_neither_overflow_nor_reach_other_rows(whole: bool) -> None:
    w = orthogonal_directions(64, 256, torch.Generator().manual_seed(0)).float()  # ‖w‖²/2 ≈ 128, beyond float32's exp
    k = torch.randn(2, 1, 5, 256) + 8 * w[:5]
    features = key_features(k, w, 0.0, whole=whole)
    assert features.isfinite().all()
    assert float(features.max()) < 1e27


def test_padding_is_not_seen_and_does_not_change_the_constant() -> None:
    k, w = vectors(2), directions(30)
    valid = torch.arange(12) < torch.tensor([[12], [7]])
    dirty = k.masked_fill(~valid[:, None, :, None], 50.0)
    features = key_features(dirty, w, 1e-4, whole=True, valid=valid)
    assert torch.count_nonzero(features[1, :, 7:]) == 0
    assert_close(features[1, :, :7], key_features(k[1:, :, :7], w, 1e-4, whole=True)[0])
    assert torch.count_nonzero(key_features(k, w, 1e-4, whole=True, valid=torch.zeros(2, 12, dtype=torch.bool))) == 0


def test_the_gradient_is_that_of_the_definition() -> None:
    x, w = vectors(1).requires_grad_(), directions(30)
    probe = torch.randn(2, 3, 12, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    c = key_constant(x.detach(), w, whole=True)
    plain = softmax_features_naive(x, w) * (-c).exp() * 30**0.5 + 0.1
    fast = softmax_features(x, w, 0.1, c)
    assert_close(fast, plain, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((features * probe).sum(), x) for features in (fast, plain)]
    assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: softmax_features(x, w, 0.1, c), x)
