"""Linear attention: the recurrence, its weights and the form by chunks are one function."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels import linear_attention as kernel
from attentif.kernels.linear_attention import (
    causal_sums,
    feature_map_attention,
    linear_attention,
    linear_attention_naive,
    linear_attention_weights,
)

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
forms = pytest.mark.parametrize(
    "form",
    [{"causal": causal, "by_feature": by_feature, "eps": 1e-6} for causal in (True, False) for by_feature in (True, False)],
    ids=lambda form: f"{'causal' if form['causal'] else 'both ways'}{', by feature' if form['by_feature'] else ''}",
)


def inputs(T: int = 37, F: int = 6, K: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    """Features of queries and keys, values, and a state that has seen something."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(2, 3, T, F), (2, 3, T, F), (2, 3, T, K), (2, 3, F, K + 1)]
    return [torch.rand(*shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_() for shape in shapes]


@pytest.fixture(params=[8, 128], ids=["many chunks", "one chunk"])
def _chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "CHUNK", request.param)


@forms
@pytest.mark.parametrize("T", [1, 2, 8, 37])
@pytest.mark.usefixtures("_chunk")
def test_outputs_states_and_gradients_equal_the_definition(form: dict[str, Any], T: int) -> None:
    x = inputs(T)[: 4 if form["causal"] else 3]
    fast, naive = linear_attention(*x, **form), linear_attention_naive(*x, **form)
    assert_close(fast, naive, **CLOSE)
    probes = [torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) for y in naive]
    first, second = (torch.autograd.grad(sum((y * p).sum() for y, p in zip(out, probes, strict=True)), x) for out in (fast, naive))
    assert_close(first, second, **CLOSE)


@forms
def test_weights_times_values_are_the_output(form: dict[str, Any]) -> None:
    q, k, v, _ = inputs()
    back = torch.ones(1, 1, 37, 37, dtype=torch.bool).tril() if form["causal"] else None
    weights = linear_attention_weights(q, k, back, eps=form["eps"], by_feature=form["by_feature"])
    assert_close(weights @ v, linear_attention(q, k, v, **form)[0], **CLOSE)


@pytest.mark.usefixtures("_chunk")
def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(lambda q, k, v, state: causal_sums(q, k, v, state[..., 1:]), inputs(T=11, F=3, K=2))


def test_float32_stays_within_rounding_of_float64() -> None:
    single = inputs(T=500, dtype=torch.float32)
    double = [t.detach().double() for t in single]
    # sums of 500 positive terms: their relative error grows like √500 roundings of 6e-8, on both sides of the division
    assert_close(
        linear_attention(*single, causal=True, eps=1e-6)[0].double(),
        linear_attention_naive(*double, causal=True, eps=1e-6)[0],
        rtol=1e-5,
        atol=1e-5,
    )


def test_a_key_of_zeros_is_not_seen() -> None:
    q, k, v, state = (t.detach() for t in inputs())
    k[:, :, 20:] = 0
    y, last = linear_attention(q, k, v, state, causal=True, eps=1e-6)
    assert_close(last, linear_attention(*(t[:, :, :20] for t in (q, k, v)), state, causal=True, eps=1e-6)[1], **CLOSE)
    v[:, :, 20:] = 1e6
    assert torch.equal(linear_attention(q, k, v, state, causal=True, eps=1e-6)[0], y)


def test_a_query_that_has_seen_nothing_gets_nothing() -> None:
    q, k, v, _ = (t.detach() for t in inputs())
    assert torch.count_nonzero(linear_attention(q, torch.zeros_like(k), v, causal=True, eps=1e-6)[0]) == 0


def test_the_gradient_keeps_one_state_a_chunk() -> None:
    x = inputs(T=1024, F=8, K=8)
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel() if tensor.shape[-2:] == x[3].shape[-2:] else 0)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        linear_attention(*x, causal=True, eps=1e-6)
    assert sum(kept) == 1024 // kernel.CHUNK * x[3].numel()


def test_three_threads_at_once_get_what_one_gets() -> None:
    sets = [inputs(seed=seed) for seed in range(3)]

    def gradients(x: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(linear_attention(*x, causal=True, eps=1e-6)[0].square().sum(), x)

    expected = [gradients(x) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(gradients, sets)) for _ in range(10)):
            assert_close(results, expected, rtol=0, atol=0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("segment", [10, 64])
def test_features_made_by_segments_are_those_made_at_once(causal: bool, segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "SEGMENT", segment)
    q, k, v, state = inputs()
    x = [q, k, v, state] if causal else [q, k, v]
    valid = torch.arange(37) < torch.tensor([[37], [23]])
    square = lambda t, valid: t.square() if valid is None else t.square().masked_fill(~valid[:, None, :, None], 0.0)
    whole = linear_attention(q.square(), square(k, valid), *x[2:], causal=causal, eps=1e-6)
    parts = feature_map_attention(*x, maps=(square, square), valid=valid, causal=causal, eps=1e-6)
    assert_close(parts, whole, **CLOSE)
    gradients = [torch.autograd.grad(y.square().sum() + last.square().sum(), x) for y, last in (parts, whole)]
    assert_close(gradients[0], gradients[1], **CLOSE)
