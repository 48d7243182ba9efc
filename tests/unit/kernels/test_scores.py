"""Alignment scores against their equations, one state and one place at a time."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.scores import additive_scores, align, location_scores, product_scores, unit
from attentif.nn.alignment import Alignment, Score

B, T, S, N, M, A = 2, 3, 5, 4, 6, 7
SCORES: tuple[Score, ...] = ("additive", "general", "dot", "location", "cosine", "scaled-dot")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def written_out(align: Alignment) -> Callable[[Tensor, Tensor, int], Tensor]:
    """e_j of one state s and one place m_j, from the papers."""
    match align.score:
        case "additive":  # vᵀ tanh(W s + U m + b)
            return lambda s, m, j: sum(
                align.v[a] * torch.tanh(align.q.weight[a] @ s + align.k.weight[a] @ m + align.k.bias[a]) for a in range(A)
            )
        case "general":  # sᵀ W m
            return lambda s, m, j: sum(s[n] * align.k.weight[n, i] * m[i] for n in range(len(s)) for i in range(len(m)))
        case "dot":
            return lambda s, m, j: sum(s[n] * m[n] for n in range(len(s)))
        case "location":  # (W s + b)_j
            return lambda s, m, j: align.q.weight[j] @ s + align.q.bias[j]
        case "cosine":
            return lambda s, m, j: align.sharpness * (s * m).sum() / ((s * s).sum().sqrt() * (m * m).sum().sqrt())
        case _:
            return lambda s, m, j: (s * m).sum() / math.sqrt(len(s))


@pytest.mark.parametrize("score", SCORES)
def test_scores_and_gradients_equal_the_equation_written_out(score: Score) -> None:
    width = M if score in ("dot", "cosine", "scaled-dot") else N
    align = Alignment(score, width, M, hidden=A, places=S).double()
    for parameter in align.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    s, m = draw(B, T, width), draw(B, S, M, seed=1)
    keys = align.keys(m)
    scores = align(s, m if keys is None else keys)
    e = written_out(align)
    expected = torch.stack([torch.stack([torch.stack([e(s[b, t], m[b, j], j) for j in range(S)]) for t in range(T)]) for b in range(B)])
    assert_close(scores, expected, rtol=1e-12, atol=1e-12)
    probe, inputs = draw(B, T, S, seed=2).detach(), [s, *([] if score == "location" else [m]), *align.parameters()]
    gradients = [torch.autograd.grad((x * probe).sum(), inputs) for x in (scores, expected)]
    assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_what_is_read_is_the_weighted_sum_over_the_places_that_may_be_read() -> None:
    scores, values = draw(B, T, S), draw(B, S, M, seed=1)
    mask = torch.zeros(B, 1, S, dtype=torch.float64)
    mask[1, 0, 3:] = -math.inf
    context, weights = align(scores, values, mask)
    for b, places in ((0, 5), (1, 3)):
        for t in range(T):
            e = scores[b, t, :places].exp()
            assert_close(weights[b, t, :places], e / e.sum())
            assert_close(context[b, t], sum(w * v for w, v in zip(e / e.sum(), values[b, :places], strict=True)))
    assert torch.count_nonzero(weights[1, :, 3:]) == 0


def test_location_uses_the_first_places_and_reads_nothing_beyond_those_it_knows() -> None:
    q = draw(B, T, 4)
    assert torch.equal(location_scores(q, 3), q[..., :3])
    longer = location_scores(q, 6)
    assert torch.equal(longer[..., :4], q)
    assert (longer[..., 4:] == -math.inf).all()
    assert torch.count_nonzero(align(longer, draw(B, 6, M), None)[1][..., 4:]) == 0


@pytest.mark.parametrize(
    ("function", "shapes"),
    [(additive_scores, [(B, T, A), (B, S, A), (A,)]), (product_scores, [(B, T, N), (B, S, N)]), (unit, [(B, T, N)])],
)
def test_gradients_are_those_of_finite_differences(function: Any, shapes: list[tuple[int, ...]]) -> None:
    assert torch.autograd.gradcheck(function, [draw(*shape, seed=seed) for seed, shape in enumerate(shapes)])


def test_a_zero_vector_has_no_direction_and_a_finite_gradient() -> None:
    x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.count_nonzero(unit(x)) == 0
    (gradient,) = torch.autograd.grad(unit(x).sum(), x)
    assert gradient.isfinite().all()
