"""Products of few rows against the equation, on every path that `linear` may take."""

import threading
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels import linear as kernel
from attentif.kernels.cross_entropy import linear_cross_entropy, linear_cross_entropy_naive
from attentif.kernels.linear import FEW, LARGE, linear, linear_few, linear_naive, linear_one
from attentif.nn.linear import Linear

WIDE, ODD = (512, 256), (515, 256)  # (O, I): shared evenly by two threads, and not


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def tensors(rows: tuple[int, ...], shape: tuple[int, int], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.randn(*rows, shape[1]), torch.randn(shape), torch.randn(shape[0])


@pytest.mark.parametrize("shape", [WIDE, ODD, (2, 1 << 16), (1, 1 << 17), (3, 50000)])
@pytest.mark.parametrize("rows", [(), (1,), (1, 1), (2,), (3, 1), (2, 5), (FEW,), (FEW + 1,), (0,)])
@pytest.mark.parametrize("biased", [True, False])
def test_every_form_is_the_equation(shape: tuple[int, int], rows: tuple[int, ...], biased: bool) -> None:
    x, weight, bias = tensors(rows, shape)
    with torch.no_grad():
        y = linear(x, weight, bias if biased else None)
    expected = linear_naive(x.double(), weight.double(), bias.double() if biased else None).float()
    assert y.shape == expected.shape
    assert y.is_contiguous()
    assert_close(y, expected, rtol=1e-4, atol=1e-5 * shape[1] ** 0.5)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_equation(threads: int) -> None:
    torch.set_num_threads(threads)
    x, weight, bias = tensors((1,), ODD)
    assert_close(linear_one(x, weight, bias), linear_naive(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_the_same_number_of_threads_gives_the_same_bits() -> None:
    for rows in ((1,), (7,)):
        x, weight, bias = tensors(rows, ODD)
        with torch.no_grad():
            first = linear(x, weight, bias)
            assert all(torch.equal(first, linear(x, weight, bias)) for _ in range(20))


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The forms that were taken."""
    taken: list[str] = []

    def watch(name: str, form: object) -> object:
        def watched(*args: object) -> object:
            taken.append(name)
            return form(*args)  # type: ignore[operator]

        return watched

    monkeypatch.setattr(kernel, "linear_one", watch("one", linear_one))
    monkeypatch.setattr(kernel, "linear_few", watch("few", linear_few))
    return taken


def test_few_rows_without_gradients_take_the_fast_forms(forms: list[str]) -> None:
    with torch.no_grad():
        for rows in ((1, 1), (4, 1), (FEW,), (FEW + 1,)):
            linear(*tensors(rows, WIDE))
        x, weight, bias = tensors((1,), (LARGE // 256 - 1, 256))
        linear(x, weight, bias)  # too small to be shared out
        x, weight, bias = tensors((1,), WIDE)
        linear(x, weight.T.contiguous().T, bias)
        linear(x.double(), weight.double(), bias.double())
    linear(x, weight, bias)  # gradients are enabled
    assert forms == ["one", "few", "few"]


@pytest.mark.parametrize("rows", [1, 5])
def test_rows_may_lie_anywhere_in_memory(rows: int) -> None:
    x, weight, bias = tensors((2 * rows + 1, 3), WIDE)
    part = x[1::2, 1][:rows]  # neither contiguous nor at the beginning
    columns = x.mT.contiguous().mT[:rows, 1]  # the numbers of a row are not neighbours
    with torch.no_grad():
        for view in (part, columns):
            assert_close(linear(view, weight, bias), F.linear(view.contiguous(), weight, bias), rtol=1e-4, atol=1e-4)


def test_weights_may_be_part_of_a_larger_tensor() -> None:
    x, weight, bias = tensors((1,), (2 * WIDE[0], WIDE[1]))
    with torch.no_grad():
        assert_close(linear(x, weight[512:], bias[512:]), F.linear(x, weight[512:], bias[512:]), rtol=1e-4, atol=1e-4)


def test_three_threads_at_once_do_not_disturb_each_other() -> None:
    cases = [tensors((rows,), ODD, seed) for seed, rows in enumerate((1, 1, 6))]
    with torch.no_grad():
        expected = [linear(*case) for case in cases]
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.no_grad():
            wrong.extend(number for _ in range(50) if not torch.allclose(linear(*cases[number]), expected[number], rtol=1e-4, atol=1e-4))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_module_is_an_nn_linear_with_gradients() -> None:
    ours, theirs = Linear(256, 512), torch.nn.Linear(256, 512)
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, torch.nn.Linear)
    x = torch.randn(3, 256)
    for module in (ours, theirs):
        module(x).square().sum().backward()
    assert_close(ours.weight.grad, theirs.weight.grad)
    with torch.no_grad():
        assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [(FEW + 6,), (3, 40)])
@pytest.mark.parametrize("biased", [True, False])
def test_many_rows_by_onednn_are_the_equation_in_output_and_gradients(monkeypatch, rows: tuple[int, ...], biased: bool) -> None:
    monkeypatch.setattr(kernel, "takes_onednn", lambda threads: True)
    given = [tensor.requires_grad_() for tensor in tensors(rows, WIDE)]
    x, weight, bias = given[0], given[1], given[2] if biased else None
    wanted = given if biased else given[:2]
    y = linear(x, weight, bias)
    assert_close(y, F.linear(x, weight, bias), rtol=1e-5, atol=1e-4)  # sums of 512 products, up to 40 each
    probe = torch.randn(y.shape)
    found, expected = (torch.autograd.grad((out * probe).sum(), wanted) for out in (y, F.linear(x, weight, bias)))
    assert_close(found, expected, rtol=1e-4, atol=1e-3)
    with torch.no_grad():
        assert torch.equal(linear(x, weight, bias), y)


def test_cross_entropy_by_onednn_is_the_equation(monkeypatch) -> None:
    monkeypatch.setattr(kernel, "takes_onednn", lambda threads: True)
    x, weight, bias = (tensor.requires_grad_() for tensor in tensors((FEW + 10,), WIDE))
    labels = torch.arange(FEW + 10)
    both = [form(x, weight, labels, bias, 0.1) for form in (linear_cross_entropy, linear_cross_entropy_naive)]
    assert_close(both[0], both[1], rtol=1e-4, atol=1e-3)
    assert_close(*(torch.autograd.grad(loss, (x, weight, bias)) for loss in both), rtol=1e-3, atol=1e-3)
