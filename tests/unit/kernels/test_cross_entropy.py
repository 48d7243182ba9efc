import pytest
import torch
from torch import Tensor

from attentif.kernels import cross_entropy
from attentif.kernels.cross_entropy import linear_cross_entropy, linear_cross_entropy_naive


def problem(rows: int = 23, *, bias: bool = True, dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(rows, 5), (11, 5)] + ([(11,)] if bias else [])
    return (
        [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes],
        torch.randint(0, 11, (rows,), generator=generator),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_chunks_give_the_loss_and_the_gradients_of_the_naive_form(monkeypatch: pytest.MonkeyPatch, bias: bool, smoothing: float) -> None:
    monkeypatch.setattr(cross_entropy, "ROWS", 4)  # 23 rows: five whole chunks and a part
    monkeypatch.setattr(cross_entropy, "CELLS", 1)
    (x, weight, *rest), labels = problem(bias=bias)
    results = []
    for function in (linear_cross_entropy, linear_cross_entropy_naive):
        total = function(x, weight, labels, *rest, smoothing=smoothing)
        results.append([total, *torch.autograd.grad(total / 7, [x, weight, *rest])])
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_a_label_of_no_probability_has_a_finite_exact_loss() -> None:
    x, weight = torch.tensor([[1.0]]), torch.tensor([[500.0], [-500.0]])  # p of the second is 0 in float32
    assert float(linear_cross_entropy(x, weight, torch.tensor([1]))) == 1000.0


def test_no_row_is_a_loss_of_nothing() -> None:
    (x, weight), labels = problem(0, bias=False)
    total = linear_cross_entropy(x, weight, labels)
    total.backward()
    assert float(total.detach()) == 0.0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_frozen_weights_get_no_gradient() -> None:
    (x, weight), labels = problem(bias=False)
    linear_cross_entropy(x, weight.detach(), labels).backward()
    (again, kept), _ = problem(bias=False)
    linear_cross_entropy_naive(again, kept, labels).backward()
    torch.testing.assert_close(x.grad, again.grad)


def test_asking_twice_for_the_gradient_is_refused() -> None:
    (x, weight), labels = problem(bias=False)
    total = linear_cross_entropy(x, weight, labels)
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="asked for once"):
        total.backward()
