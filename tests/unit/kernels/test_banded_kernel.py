"""Attention over a part of the keys: blocks, the definition, and the gradient."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.kernels.attention import attention_naive
from attentif.kernels.banded import block_sparse_attention, window_attention, window_attention_naive

CLOSE = {"rtol": 1e-11, "atol": 1e-11}  # float64: two orders of the same sums


@pytest.fixture(params=[8, 1024])
def segment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments, and one."""
    monkeypatch.setattr("attentif.kernels.banded.SEGMENT", request.param)


# heads, their groups, queries, keys, left, right, block
SHAPES = {
    "causal": (4, 4, 33, 33, 4, 0, 8),
    "both ways": (4, 4, 64, 64, 16, 16, 4),
    "grouped": (4, 2, 33, 33, 4, 2, 8),
    "multi-query": (4, 1, 40, 40, 3, 5, 4),
    "right only": (2, 2, 40, 40, 0, 5, 4),
    "after a prefix": (2, 2, 100, 120, 7, 0, 16),
    "after a short prefix": (2, 2, 50, 53, 7, 2, 4),
    "after a long prefix": (2, 2, 17, 300, 50, 0, 8),
    "shorter than the window": (4, 4, 5, 5, 9, 9, 8),
    "one query": (2, 1, 1, 1, 3, 3, 4),
    "no neighbour": (2, 2, 9, 9, 0, 0, 2),
    "whole blocks": (2, 2, 32, 32, 8, 8, 8),
    "small": (2, 1, 9, 11, 2, 1, 2),
}


def tensors(name: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[list[Tensor], dict[str, Any]]:
    H, G, T, S, left, right, block = SHAPES[name]
    generator = torch.Generator().manual_seed(seed)
    shapes = [(H, T, 5), (G, S, 5), (G, S, 3), (H, left + right + 1)]
    drawn = [torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    return drawn, {"left": left, "right": right, "scale": 0.7, "block": block}


def naive(q: Tensor, k: Tensor, v: Tensor, *, block: int, **options: Any) -> Tensor:
    return window_attention_naive(q, k, v, **options)


@pytest.mark.usefixtures("segment")
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("softcap", [None, 0.8])
@pytest.mark.parametrize("biased", [False, True])
def test_blocks_equal_the_definition_in_output_and_gradients(name: str, softcap: float | None, biased: bool) -> None:
    (*x, bias), options = tensors(name)
    wanted = [*x, bias] if biased else x
    options |= {"softcap": softcap, "bias": bias if biased else None}
    fast, plain = window_attention(*x, **options), naive(*x, **options)
    assert_close(fast, plain, **CLOSE)
    probe = torch.randn(fast.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(torch.autograd.grad((fast * probe).sum(), wanted), torch.autograd.grad((plain * probe).sum(), wanted), **CLOSE)


def test_gradients_are_those_of_finite_differences() -> None:
    (*x, bias), options = tensors("small")
    assert torch.autograd.gradcheck(lambda q, k, v, b: window_attention(q, k, v, bias=b, **options), [*x, bias])


def test_the_naive_form_is_the_equation_written_out() -> None:
    (q, k, v, bias), options = tensors("grouped")
    y = naive(q, k, v, bias=bias, **options)
    i, h, left, right = 20, 3, options["left"], options["right"]
    keys = range(i - left, i + right + 1)
    weights = torch.stack([0.7 * q[h, i] @ k[h // 2, j] + bias[h, j - i + left] for j in keys]).softmax(0)
    assert_close(y[i, h], sum(w * v[h // 2, j] for w, j in zip(weights, keys, strict=True)), **CLOSE)


def test_float32_stays_within_rounding_of_float64() -> None:
    (*single, _), options = tensors("both ways", torch.float32)
    double = [t.detach().double() for t in single]
    # a mean of 33 values near 1, scores to 24 bits: some 1e-6
    assert_close(window_attention(*single, **options).double(), naive(*double, **options), rtol=1e-5, atol=1e-5)


def test_three_threads_at_once_get_what_one_gets() -> None:
    _, options = tensors("both ways")
    sets = [[t.detach() for t in tensors("both ways", seed=seed)[0][:3]] for seed in range(3)]
    expected = [window_attention(*x, **options) for x in sets]
    with ThreadPoolExecutor(3) as pool:
        for results in (list(pool.map(lambda x: window_attention(*x, **options), sets)) for _ in range(10)):
            assert all(torch.equal(y, z) for y, z in zip(results, expected, strict=True))


def gathered(H: int, G: int, T: int, S: int, shared: list[int], random: int) -> tuple[list[Tensor], dict[str, Any], Tensor]:
    """Tensors, options, and the (H, T, S) mask that they stand for: windows of 3 and 2, blocks of 4, some keys twice among the columns."""
    torch.manual_seed(0)
    Q, left, right = 4, 3, 2
    x = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((H, T, 5), (G, S, 5), (G, S, 3))]
    begin = (S - T) // Q * Q
    M = -(-(S - begin) // Q)
    own = torch.stack([torch.stack([torch.randperm(-(-S // Q))[:random] for _ in range(M)]) for _ in range(H)])
    first = begin + torch.arange(M)[:, None, None] * Q
    near = (first - left + torch.arange(left + Q + right)).expand(M, H, -1)
    far = (own.transpose(0, 1)[..., None] * Q + torch.arange(Q)).flatten(2)
    columns = torch.cat([near, torch.tensor(shared, dtype=torch.long).expand(M, H, -1), far], 2)  # (M, H, keys)
    queries = first[..., None] + torch.arange(Q)[:, None]  # (M, 1, Q, 1)
    mask = (torch.rand(M, H, Q, columns.shape[2]) < 0.8) & (columns >= 0)[:, :, None] & (columns < S)[:, :, None]
    whole = torch.zeros(H, T, S, dtype=torch.bool)
    for m in range(M):
        for h in range(H):
            for column, place in enumerate(columns[m, h].tolist()):
                fresh = place not in columns[m, h, :column].tolist()
                mask[m, h, :, column] &= fresh
                for q in range(Q):
                    i = int(queries[m, 0, q, 0]) - (S - T)
                    if 0 <= i < T and mask[m, h, q, column]:
                        whole[h, i, place] = True
    options = {"left": left, "right": right, "block": Q, "scale": 0.7, "mask": mask}
    return x, options | {"shared": torch.tensor(shared) if shared else None, "own": own if random else None}, whole


@pytest.mark.usefixtures("segment")
@pytest.mark.parametrize("shared", [[], [0, 7]])
@pytest.mark.parametrize("random", [0, 2])
@pytest.mark.parametrize("size", [(4, 4, 23, 23), (4, 2, 16, 16), (2, 1, 9, 22)])
@pytest.mark.parametrize("softcap", [None, 0.8])
def test_gathered_keys_equal_a_mask_over_all(shared: list[int], random: int, size: tuple[int, ...], softcap: float | None) -> None:
    x, options, whole = gathered(*size, shared, random)
    fast = block_sparse_attention(*x, softcap=softcap, **options)
    plain = attention_naive(*(t[None] for t in x), scale=0.7, mask=whole[None], softcap=softcap)[0].transpose(0, 1)
    assert_close(fast, plain, **CLOSE)
    probe = torch.randn(fast.shape, dtype=torch.float64)
    assert_close(torch.autograd.grad((fast * probe).sum(), x), torch.autograd.grad((plain * probe).sum(), x), **CLOSE)
