"""The gate y ⊙ silu(z): one pass each way, the same function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels import gate
from attentif.kernels.gate import silu_gate, silu_gate_naive


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FEW", 0)


def pair(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(3 * torch.randn(*shape, dtype=torch.float64, generator=generator)).to(dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 50, 200)])  # one, a part of a block, several blocks
def test_values_and_gradients_equal_the_definition(shape: tuple[int, ...]) -> None:
    inputs, probe = pair(*shape), pair(*shape, seed=1)[0].detach()
    fast, naive = silu_gate(*inputs), silu_gate_naive(*inputs)
    assert_close(fast, naive, rtol=1e-13, atol=1e-13)
    gradients = [torch.autograd.grad((y * probe).sum(), inputs) for y in (fast, naive)]
    assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(silu_gate, pair(3, 4))


def test_float32_stays_within_rounding_of_float64() -> None:
    single = pair(40, 300, dtype=torch.float32)
    # σ by a polynomial exp is right to some 1e-7, and three products follow
    assert_close(silu_gate(*single).double(), silu_gate_naive(*(t.detach().double() for t in single)), rtol=1e-6, atol=1e-6)


def test_far_ends_stay_finite() -> None:
    y, z = torch.ones(4, requires_grad=True), torch.tensor([-1e6, -90.0, 90.0, 1e6], requires_grad=True)
    out = silu_gate(y, z)
    assert_close(out, torch.tensor([0.0, 0.0, 90.0, 1e6]), rtol=0, atol=1e-30)
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), [y, z]))


def test_small_tensors_take_torchs_own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FEW", 10**9)
    monkeypatch.setattr(gate, "_gate", None)
    assert_close(silu_gate(*pair(3, 4)), silu_gate_naive(*pair(3, 4)))


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [[t.detach() for t in pair(9, 3000, seed=seed)] for seed in range(3)]
    expected = [silu_gate(*inputs) for inputs in sets]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            assert all(map(torch.equal, pool.map(lambda inputs: silu_gate(*inputs), sets), expected))


def test_a_compiled_graph_holds_the_kernel() -> None:
    inputs = [t.detach() for t in pair(5, 6)]
    assert torch.equal(torch.compile(silu_gate, backend="eager", fullgraph=True)(*inputs), silu_gate(*inputs))
