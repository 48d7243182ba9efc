"""Rotation of pairs of components.

    y₁ = x₁ cos − x₂ sin,   y₂ = x₂ cos + x₁ sin          (Su et al. 2021, eq. 34)

    x        vectors                                                                  (..., K)
    c, s     cos of every component's angle; its sin, negated on the first of a pair  broadcast to (..., K)

With x̄, x with the components of each pair swapped, y = x ⊙ c + x̄ ⊙ s, and its gradient is the same with −s: three passes instead of seven.
"""

from typing import Any, Literal

import torch
from torch import Tensor

Pairs = Literal["half", "adjacent"]


def turn_naive(x: Tensor, cos: Tensor, sin: Tensor, pairs: Pairs) -> Tensor:
    """The equation, from the cos and sin (..., K/2) of the pairs."""
    if pairs == "half":
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def by_component(cos: Tensor, sin: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Expand cos and sin (..., K/2) of pairs to c and s (..., K)."""
    if pairs == "half":
        return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
    return torch.stack([cos, cos], -1).flatten(-2), torch.stack([-sin, sin], -1).flatten(-2)


def turn(x: Tensor, c: Tensor, s: Tensor, pairs: Pairs) -> Tensor:
    """The same in three passes; c and s get no gradient."""
    turned: Tensor = _Turn.apply(x, c, s, pairs) if torch.is_grad_enabled() and x.requires_grad else _turn(x, c, s, pairs)
    return turned


def _turn(x: Tensor, c: Tensor, s: Tensor, pairs: Pairs) -> Tensor:
    if pairs == "half":
        a, b = x.chunk(2, -1)
        exchanged = torch.cat([b, a], -1)
    else:
        exchanged = torch.stack([x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return exchanged.mul_(s).addcmul_(x, c)


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor, s: Tensor, pairs: Pairs) -> Tensor:
        ctx.save_for_backward(c, s)
        ctx.pairs = pairs
        return _turn(x, c, s, pairs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        c, s = ctx.saved_tensors
        return turn(gradient, c, -s, ctx.pairs), None, None, None
