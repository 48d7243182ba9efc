"""The contrastive loss against its definition, pair by pair."""

import math

import pytest
import torch
import torch.nn.functional as F

from attentif.kernels.contrastive import contrastive_loss, contrastive_loss_naive


def test_loss_and_gradients_are_those_of_the_definition() -> None:
    chance = torch.Generator().manual_seed(0)
    same = torch.tensor([0, 1, 2, 1, 3])  # rows 1 and 3 say the same
    given = [torch.randn(5, 4, generator=chance, dtype=torch.float64) for _ in range(2)]
    found = []
    for loss in (lambda *own: contrastive_loss(*own)[0], contrastive_loss_naive):
        x, y = (one.clone().requires_grad_() for one in given)
        scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        total = loss(F.normalize(x, dim=-1), F.normalize(y, dim=-1), scale, same)
        total.backward()
        found.append([total.detach(), x.grad, y.grad, scale.grad])
    for fast, naive in zip(*found, strict=True):
        torch.testing.assert_close(fast, naive, rtol=1e-10, atol=1e-12)


def test_at_chance_the_loss_is_the_logarithm_of_the_number_of_rows() -> None:
    x = torch.ones(8, 3) / math.sqrt(3)
    total, _ = contrastive_loss(x, x, torch.tensor(10.0), torch.arange(8))
    assert float(total) / 8 == pytest.approx(math.log(8))


def test_rows_that_say_the_same_are_no_wrong_answers() -> None:
    x = F.normalize(torch.randn(4, 6, generator=torch.Generator().manual_seed(1)), dim=-1)
    twice = torch.cat([x, x])
    alone, right = contrastive_loss(x, x, torch.tensor(5.0), torch.arange(4))
    total, both = contrastive_loss(twice, twice, torch.tensor(5.0), torch.arange(4).repeat(2))
    assert (int(right), int(both)) == (4, 8)
    assert float(total) > 2 * float(alone)  # each of the others is there twice
    apart, _ = contrastive_loss(twice, twice, torch.tensor(5.0), torch.arange(8))
    assert float(apart) > float(total)
