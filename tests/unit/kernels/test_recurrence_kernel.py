"""RNN, LSTM and GRU over whole sequences: the compiled loops against the definition, a step at a time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.gru import gru, gru_naive
from attentif.kernels.lstm import lstm, lstm_naive
from attentif.kernels.rnn import rnn, rnn_naive

Kernel = Callable[..., tuple[Tensor, ...]]
KERNELS: dict[str, tuple[Kernel, Kernel]] = {
    "rnn-tanh": (rnn, rnn_naive),
    "rnn-relu": (rnn, rnn_naive),
    "lstm": (lstm, lstm_naive),
    "lstm-peepholes": (lstm, lstm_naive),
    "gru": (gru, gru_naive),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
LAYOUTS = {  # runs of places: (how many places, where each run begins, how long it is)
    "padded": (6 * 9, [0, 9, 18, 27, 36, 45], [9, 3, 1, 9, 0, 6]),
    "packed": (28, [0, 9, 12, 13, 22, 22], [9, 3, 1, 9, 0, 6]),
    "dense": (6 * 5, [0, 5, 10, 15, 20, 25], [5] * 6),
    "one": (7, [0], [7]),
    "none": (4, [0, 2], [0, 0]),
}


def inputs(name: str, layout: str = "padded", N: int = 10, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Any]:
    """Arguments of the kernel; those with a gradient come first, but for the activation of `rnn`."""
    places, begin, lengths = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return (scale * torch.randn(*shape, dtype=torch.float64, generator=generator)).to(dtype).requires_grad_()

    B, runs, kind = len(begin), (torch.tensor(begin), torch.tensor(lengths)), name.split("-")[0]
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[kind]
    first, w_h = [draw(places, gates * N), draw(B, N)], draw(gates * N, N, scale=N**-0.5)
    if kind == "rnn":
        return [*first, w_h, name.split("-")[1], *runs]
    if kind == "gru":
        return [*first, w_h, draw(N), *runs]
    return [*first, draw(B, N), w_h, draw(3, N) if name == "lstm-peepholes" else None, *runs]


def learned(x: list[Any]) -> list[Tensor]:
    return [t for t in x if isinstance(t, Tensor) and t.requires_grad]


def probed(outputs: tuple[Tensor, ...]) -> Tensor:
    """One number that every output of every place and every last state has a part in."""
    generator = torch.Generator().manual_seed(1)
    probes = [torch.randn(y.shape, dtype=torch.float64, generator=generator).to(y.dtype) for y in outputs]
    return torch.stack([(y * probe).sum() for y, probe in zip(outputs, probes, strict=True)]).sum()


@every_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_states_and_gradients_equal_the_definition(name: str, layout: str) -> None:
    (fast, naive), x = KERNELS[name], inputs(name, layout)
    mine, expected = fast(*x), naive(*x)
    assert_close(mine, expected, **EXACT)
    gradients = [torch.autograd.grad(probed(y), learned(x), materialize_grads=True) for y in (mine, expected)]
    assert_close(*gradients, **EXACT)


@every_kernel
@pytest.mark.parametrize("N", [1, 12, 13, 33])
def test_any_width_fills_whole_tiles_or_not(name: str, N: int) -> None:
    (fast, naive), x = KERNELS[name], inputs(name, N=N)
    assert_close(fast(*x), naive(*x), **EXACT)


@every_kernel
@pytest.mark.parametrize("which", [0, 1])
def test_gradients_of_the_outputs_or_of_the_last_state_alone(name: str, which: int) -> None:
    (fast, naive), x = KERNELS[name], inputs(name)
    gradients = [torch.autograd.grad(form(*x)[which].square().sum(), learned(x)) for form in (fast, naive)]
    assert_close(*gradients, **EXACT)


@every_kernel
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    x = inputs(name, "padded", N=2)
    assert torch.autograd.gradcheck(KERNELS[name][0], x)


@every_kernel
def test_float32_stays_within_rounding_of_float64(name: str) -> None:
    fast, naive = KERNELS[name]
    single = inputs(name, N=64, dtype=torch.float32)
    double = [t.detach().double().requires_grad_() if isinstance(t, Tensor) and t.is_floating_point() else t for t in single]
    mine, expected = fast(*single), naive(*double)
    # sums of 64 products near 1/8, σ and tanh within 2e-7 of theirs, through nine steps that hardly amplify: some 1e-6
    assert_close([y.double() for y in mine], list(expected), rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(probed(y), learned(x)) for y, x in ((mine, single), (expected, double))]
    # each is a sum over up to 28 places of terms that reach 10
    assert_close([g.double() for g in gradients[0]], list(gradients[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_kernel
def test_gates_far_from_zero_saturate_and_stay_finite(name: str, dtype: torch.dtype) -> None:
    x = inputs(name, dtype=dtype)
    with torch.no_grad():
        x[0] *= 1e4
    outputs = KERNELS[name][0](*x)
    assert all(y.isfinite().all() for y in (*outputs, *torch.autograd.grad(probed(outputs), learned(x))))


@every_kernel
def test_the_state_passes_what_has_no_place_unchanged(name: str) -> None:
    x = inputs(name, "none")
    y, *last = KERNELS[name][0](*x)
    assert not y.any()
    assert_close(last, x[1 : 1 + len(last)], rtol=0, atol=0)


@every_kernel
def test_three_threads_at_once_get_what_one_gets(name: str) -> None:
    fast = KERNELS[name][0]
    sets = [[t.detach() if isinstance(t, Tensor) else t for t in inputs(name, seed=seed)] for seed in range(3)]
    expected = [fast(*x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: fast(*x), sets)) for _ in range(10)):
            assert all(torch.equal(y, z) for got, known in zip(results, expected, strict=True) for y, z in zip(got, known, strict=True))


@every_kernel
def test_a_compiled_graph_holds_the_kernel(name: str) -> None:
    fast, x = KERNELS[name][0], inputs(name)
    graph = torch.compile(fast, backend="aot_eager", fullgraph=True)
    mine, expected = graph(*x), fast(*x)
    assert_close(mine, expected, rtol=0, atol=0)
    assert_close(*(torch.autograd.grad(probed(y), learned(x)) for y in (mine, expected)), rtol=0, atol=0)
