"""The selective scan: three forms, one function, over padded and packed sequences."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.selective_scan import selective_scan, selective_scan_doubling, selective_scan_naive

FAST = [selective_scan, selective_scan_doubling]
PACKED = (43, [0, 9, 9, 10], [9, 0, 1, 33])  # places, where sequences begin, their lengths: more than a chunk, one token, none
PADDED = (60, [0, 20, 40], [20, 2, 17])  # some places empty
Layout = tuple[int, list[int], list[int]]


def inputs(layout: Layout = PACKED, D: int = 5, S: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[list[Tensor], list]:
    """x, Δ, A, B, C, D and h_0; and the layout."""
    generator = torch.Generator().manual_seed(seed)
    N, first, lengths = layout
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)
    values = [draw(N, D), draw(N, D).sigmoid(), -draw(D, S).exp(), draw(N, S), draw(N, S), draw(D), draw(len(first), S, D)]
    return [t.to(dtype).requires_grad_() for t in values], [torch.tensor(first), torch.tensor(lengths)]


def both(form: object, x: list[Tensor], places: list[Tensor]) -> tuple[Tensor, ...]:
    """Outputs, last states, and the gradients of a sum in which each number has a weight of its own."""
    y, last = form(*x, *places)
    generator = torch.Generator().manual_seed(1)
    weigh = lambda t: (t * torch.randn(t.shape, dtype=torch.float64, generator=generator).to(t.dtype)).sum()
    return y.detach(), last.detach(), *torch.autograd.grad(weigh(y) + weigh(last), x)


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("layout", [PACKED, PADDED])
@pytest.mark.parametrize(("D", "S"), [(5, 3), (130, 4), (64, 1)])
def test_outputs_states_and_gradients_equal_the_definition(form: object, layout: Layout, D: int, S: int) -> None:
    x, places = inputs(layout, D, S)
    assert_close(both(form, x, places), both(selective_scan_naive, x, places), rtol=1e-11, atol=1e-11)


def test_without_gradients_it_is_the_same() -> None:
    x, places = inputs(PADDED)
    with torch.no_grad():
        assert_close(selective_scan(*x, *places), selective_scan_naive(*x, *places), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FAST)
def test_gradients_are_those_of_finite_differences(form: object) -> None:
    x, places = inputs((19, [0, 17], [17, 2]), D=2, S=2)
    assert torch.autograd.gradcheck(lambda *args: form(*args, *places), x)


def test_float32_stays_within_rounding_of_float64() -> None:
    x, places = inputs((300, [0], [300]), D=70, S=16, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() for t in x]
    single, exact = both(selective_scan, x, places), both(selective_scan_naive, double, places)
    for name, ours, theirs in zip(("y", "h", "dx", "dΔ", "dA", "dB", "dC", "dD", "dh0"), single, exact, strict=True):
        # each decay is off by 2e-7 (its exponent is rounded, the polynomial is not exact), and states remember some ten of them;
        # sums over 300 steps or 70 channels add roundings of terms larger than the result: relative to the largest number
        assert float((ours.double() - theirs).abs().max() / theirs.abs().max()) < 5e-6, name


def test_a_step_size_of_zero_keeps_the_state() -> None:
    (x, delta, *rest), places = inputs(dtype=torch.float32)
    _, last = selective_scan(x, torch.zeros_like(delta), *rest, *places)
    assert torch.equal(last, rest[-1])


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [inputs(D=200, S=4, dtype=torch.float32, seed=seed) for seed in range(3)]
    expected = [both(selective_scan, *one) for one in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda one: both(selective_scan, *one), sets)) for _ in range(10)):
            for result, known in zip(results, expected, strict=True):
                assert all(torch.equal(y, z) for y, z in zip(result, known, strict=True))


def test_a_compiled_graph_holds_the_kernel() -> None:
    x, places = inputs()
    x = [t.detach() for t in x]
    compiled = torch.compile(selective_scan, backend="eager", fullgraph=True)
    assert_close(compiled(*x, *places), selective_scan(*x, *places), rtol=0, atol=0)
