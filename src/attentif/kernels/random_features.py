"""Positive random features of the softmax kernel (FAVOR+): φ(q)·φ(k) is exp(q·k) on average.

    φ(x)_m = (exp(w_m·x − ‖x‖²/2 − c) + ε) / √M,     w_1 ... w_M ~ N(0, I)

    x        queries or keys, already divided by K^¼ each so that their product is divided by √K      (..., T, K)
    w        directions; orthogonal in blocks of K, which lowers the variance; lengths as of a Gaussian (M, K)
    c        any constant that queries or keys share cancels in the normalised sum; it keeps exp within range
    ε        keeps every weight positive

Choromanski et al. 2021, lemma 1 and section 2.4. E exp(w·q − ‖q‖²/2) exp(w·k − ‖k‖²/2) = exp(q·k), because w·(q + k) is Gaussian.
c must not depend on a later token where the sum is causal: `key_constant` takes the largest of the whole sequence only when it is told
that it may (`whole`), else a constant of the directions alone. No gradient goes through it.
"""

from typing import Any

import torch
from torch import Tensor

SEGMENT = 512  # tokens whose products are held at the same time
LARGEST = 60.0  # exponent up to which exp is left alone: e⁶⁰ ≈ 1e26, far from float32's 3e38 even after a long sum


def orthogonal_directions(features: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw (M, K) Gaussian directions, orthogonal in blocks of K, on CPU in float64."""
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")
    rotations, triangles = torch.linalg.qr(draw(-(-features // width), width, width))
    rotations = rotations * triangles.diagonal(dim1=1, dim2=2).sign()[:, None]  # without these signs, no direction would point some ways
    return draw(features, width).norm(dim=1, keepdim=True) * rotations.mT.flatten(0, 1)[:features]


def softmax_features_naive(x: Tensor, w: Tensor) -> Tensor:
    """The definition without c and ε, for small numbers."""
    return torch.exp(x @ w.mT - x.square().sum(-1, keepdim=True) / 2) / w.shape[0] ** 0.5


def softmax_features(x: Tensor, w: Tensor, eps: float, c: Tensor | None = None, valid: Tensor | None = None) -> Tensor:
    """(B, H, T, M) features without 1/√M, which cancels; zero where not `valid` (B, T).

    c: broadcast to (B, H, T, 1); by default, as for queries, the largest w_m·x of each vector.
    """
    features: Tensor = _Features.apply(x, w, eps, c)
    return features if valid is None else features.masked_fill(~valid[:, None, :, None], 0.0)


@torch.no_grad()
def key_constant(k: Tensor, w: Tensor, *, whole: bool, valid: Tensor | None = None) -> Tensor:
    """c of the keys (B, H, T, K): their largest w_m·k if `whole`, else a bound from w alone."""
    if not whole:
        return (w.square().sum(-1).amax() / 2 - LARGEST).clamp(min=0)  # w·k − ‖k‖²/2 is at most ‖w‖²/2
    largest = torch.cat([(part @ w.mT).amax(-1, keepdim=True) for part in k.split(SEGMENT, 2)], 2)  # (B, H, T, 1)
    if valid is not None:
        largest = largest.masked_fill(~valid[:, None, :, None], float("-inf"))
    largest = largest.amax(2, keepdim=True)
    return largest.masked_fill(largest == float("-inf"), 0.0)  # a row without tokens


def relu_features(x: Tensor, w: Tensor, eps: float, valid: Tensor | None = None) -> Tensor:
    """The "Performer-ReLU" kernel, max(w_m·x, 0) + ε (section 4); no softmax estimate."""
    features = torch.relu(x @ w.mT) + eps
    return features if valid is None else features.masked_fill(~valid[:, None, :, None], 0.0)


class _Features(torch.autograd.Function):
    """With e = exp(w·x − ‖x‖²/2 − c):  dx = Σ_m (g e)_m (w_m − x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, eps: float, c: Tensor | None) -> Tensor:
        dots = x @ w.mT
        shift = x.square().sum(-1, keepdim=True) / 2 + (dots.amax(-1, keepdim=True) if c is None else c)
        features = dots.sub_(shift).exp_().add_(eps)
        ctx.save_for_backward(x, w, features)
        ctx.eps = eps
        return features

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, w, features = ctx.saved_tensors
        scaled = (features - ctx.eps).mul_(g)
        return (scaled @ w).sub_(scaled.sum(-1, keepdim=True) * x), None, None, None
