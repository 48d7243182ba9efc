import pytest
import torch

from attentif.kernels.rotary import Pairs, by_component, turn, turn_naive


@pytest.mark.parametrize("pairs", ["half", "adjacent"])
def test_turning_in_three_passes_equals_the_equation_with_its_gradients(pairs: Pairs) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64, requires_grad=True)
    angle = torch.randn(1, 5, 1, 4, dtype=torch.float64)
    cos, sin = angle.cos(), angle.sin()
    fast, naive = turn(x, *by_component(cos, sin, pairs), pairs), turn_naive(x, cos, sin, pairs)
    torch.testing.assert_close(fast, naive)
    torch.testing.assert_close(torch.autograd.grad(fast.exp().sum(), x), torch.autograd.grad(naive.exp().sum(), x))


def test_the_gradient_can_itself_be_differentiated() -> None:
    angle = torch.randn(3, 2, dtype=torch.float64)
    c, s = by_component(angle.cos(), angle.sin(), "half")
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: turn(x, c, s, "half").pow(3), x)
