"""Counted operations against the closed formulas of the papers, against torch's own counter, and against the equations written out."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import attentif.kernels
from attentif.kernels.chunked import Chunks, chunked_attention
from attentif.kernels.conv import causal_conv
from attentif.kernels.delta_rule import delta_rule, delta_rule_naive
from attentif.kernels.gated_linear import gated_linear, gated_linear_naive
from attentif.kernels.gru import gru, gru_naive
from attentif.kernels.linear_recurrence import linear_recurrence, linear_recurrence_naive
from attentif.kernels.lstm import lstm, lstm_naive
from attentif.kernels.nearest import nearest
from attentif.kernels.rnn import rnn, rnn_naive
from attentif.kernels.selective_scan import selective_scan, selective_scan_naive
from attentif.kernels.wkv import Runs
from attentif.lab.flops import Counting, Flops, count
from attentif.lab.operations import FORMULAS, product
from attentif.models import Batch, Model, build
from attentif.models.batch import Input
from attentif.models.config import resolve
from attentif.nn.seq import Seq

T, D, V = 48, 64, 100


def model(base: str, **values: Any) -> Model:
    torch.manual_seed(0)
    return build(resolve({"base": base, "width": D, **values}).with_sizes(vocab=V, classes=3))


def tokens(*lengths: int) -> Batch:
    return Batch(Input(torch.randint(0, V, (len(lengths), max(lengths))), Seq.from_padded(list(lengths))))


def matrices(module: torch.nn.Module) -> int:
    """Numbers in the matrices that every token is multiplied by."""
    return sum(p.numel() for name, p in module.named_parameters() if p.dim() == 2 and "frontend" not in name)


def test_every_operation_of_our_kernels_has_a_formula() -> None:
    for module in pkgutil.iter_modules(attentif.kernels.__path__):
        importlib.import_module(f"attentif.kernels.{module.name}")
    ours = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("attentif::")}
    assert len(ours) >= 25  # a test that finds none would pass for ever
    assert ours <= set(FORMULAS)


def test_a_kernel_without_a_formula_is_not_passed_over_in_silence() -> None:
    @torch.library.custom_op("attentif::nobody_counted", mutates_args=())
    def nobody_counted(x: Tensor) -> Tensor:
        return x.clone()

    try:
        with pytest.raises(NotImplementedError, match="nobody_counted has no formula"), Counting():
            nobody_counted(torch.ones(2))
    finally:
        nobody_counted._lib._destroy()


def test_a_dense_layer_is_two_m_n_k() -> None:
    layer, x = torch.nn.Linear(7, 5), torch.randn(3, 11, 7, requires_grad=True)
    with Counting() as forward:
        y = layer(x)
    assert forward.total == 2 * 33 * 7 * 5
    with Counting() as backward:
        y.sum().backward()
    assert backward.total == 2 * forward.total  # the gradient of x, and that of the weight


def test_products_in_place_and_of_complex_numbers() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    with Counting() as counted:
        torch.zeros(3, 5).addmm_(a, b)
        torch.mm(a, b, out=torch.empty(3, 5))
        a @ b[:, 0]
        torch.dot(a[0], b[:, 0])
    assert counted.total == 2 * 2 * 60 + 2 * 12 + 2 * 4
    assert product(a.to(torch.complex64), b.to(torch.complex64)) == 4 * product(a, b)


def test_a_fourier_transform_is_five_n_log_n() -> None:
    with Counting() as counted:
        torch.fft.fft(torch.randn(3, 256, dtype=torch.complex64))
    assert counted.total == 3 * 5 * 256 * 8
    with Counting() as counted:
        torch.fft.irfft(torch.fft.rfft(torch.randn(3, 256)), n=256)
    assert counted.total == 2 * 3 * 5 * 256 * 8 // 2  # a real side halves it


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_as_torch_counts_them(groups: int) -> None:
    layer = torch.nn.Conv1d(6, 8, 3, padding=1, groups=groups)
    x = torch.randn(2, 6, 20, requires_grad=True)
    with FlopCounterMode(display=False) as torchs:
        layer(x)
    with Counting() as ours:
        y = layer(x)
    assert ours.total == torchs.get_total_flops() == 2 * 2 * 20 * 8 * 3 * 6 // groups
    with Counting() as backward:
        y.sum().backward()
    assert backward.total == 2 * ours.total


@pytest.mark.parametrize("base", ["transformer-tiny", "bert-tiny", "cnn-tiny", "mixtral-tiny"])
def test_products_of_whole_models_as_torch_counts_them(base: str) -> None:
    net, batch = model(base), tokens(T)
    batch = Batch(batch.source, batch.source if net.config.target else None)
    with FlopCounterMode(display=False) as torchs:
        net(batch)
    products = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm")}  # those in place torch does not count
    with Counting() as ours:
        net(batch)
    theirs = {str(name).replace("aten.", "aten::"): n for name, n in torchs.get_flop_counts()["Global"].items()}
    assert {name: n for name, n in ours.found.items() if name in products} == {name: n for name, n in theirs.items() if name in products}


def test_an_encoder_layer_of_2017() -> None:
    """Vaswani et al. 2017, table 1: n²·d for self-attention; with projections and the network of 4 d, 24 n d² + 4 n² d in all."""
    net = model("encoder-tiny", layers=1, encoder={"block": {"ffn": {"mixer": {"hidden": 4 * D}}}})
    counted = count(net, tokens(T))
    head = 2 * D * 3  # three classes, once
    assert counted.forward == 24 * T * D * D + 4 * T * T * D + head


def test_a_decoder_is_two_n_and_attention_for_each_token() -> None:
    """Kaplan et al. 2020, table 1: 2 N + 2 n_layer n_ctx d_attn. A token sees (T + 1) / 2 on average, which they round to T / 2."""
    net = model("decoder-tiny")
    counted = count(net, tokens(T))
    N, L = matrices(net) + V * D, net.config.layers
    assert counted.forward_per_token == 2 * N + 2 * L * (T + 1) * D
    assert counted.training_per_token == 6 * N + 7 * L * (T + 1) * D  # attention backwards: 2.5 times, the scores once more


def test_a_mamba_layer() -> None:
    """Gu & Dao 2023, section 3.4 and algorithm 2: projections, the short convolution with its silu, 7 E S + 2 E for a step of the scan."""
    net = model("mamba-tiny", layers=1)
    E, S, R, W = 2 * D, 16, -(-D // 16), 4
    scan = 7 * E * S + 2 * E
    each = 2 * D * 2 * E + (2 * W + 2) * E + 2 * E * (R + 2 * S) + 2 * R * E + scan + 2 * E * D
    assert count(net, tokens(T)).forward_per_token == each + 2 * V * D


@pytest.mark.parametrize(("base", "gates", "each"), [("rnn-tiny", 1, 2), ("gru-tiny", 3, 11), ("lstm-tiny", 4, 13)])
def test_recurrent_layers(base: str, gates: int, each: int) -> None:
    """2 (D + N) N for each gate, and the non-linearities: four gates for an LSTM (Hochreiter & Schmidhuber 1997)."""
    net = model(base, layers=1)
    assert count(net, tokens(T)).forward_per_token == 2 * gates * 2 * D * D + each * D + 2 * V * D


def test_a_token_pays_for_its_experts_only() -> None:
    net = model("mixtral-tiny", layers=1)
    mixer = net.get_submodule("decoder.blocks.0.ffn.mixer").config
    attention = matrices(net.get_submodule("decoder.blocks.0.attn"))
    experts = 3 * mixer.top_k * D * mixer.hidden + mixer.experts * D
    assert count(net, tokens(T)).forward_per_token == 2 * (attention + experts + V * D) + 2 * (T + 1) * D


def test_padding_costs_a_recurrence_nothing() -> None:
    net = model("lstm-tiny")
    ragged = count(net, tokens(T, T // 4)).by_operation["attentif::lstm"]
    assert ragged == pytest.approx(count(net, tokens(T)).by_operation["attentif::lstm"] * 1.25)
    assert count(net, tokens(T, T // 4)).tokens == T + T // 4


def test_chunks_attend_to_themselves_and_their_neighbours() -> None:
    q, k, v = (torch.randn(32, 2, 8, requires_grad=True) for _ in range(3))
    rows, order = torch.tensor([[0, 32, 0, 0, 32]]), torch.arange(32, dtype=torch.int32).repeat(2)
    with Counting() as counted:
        y = chunked_attention(q, k, v, order, rows, Chunks(size=8))
    assert counted.total == 4 * 8 * 2 * (32 * 16)  # two chunks of 8 seen by each of 32, two heads
    with Counting() as counted:
        y.sum().backward()
    assert counted.total == 10 * 8 * 2 * (32 * 16)


def test_a_memory_is_searched_by_one_product_and_read_where_it_is_near() -> None:
    q, k, v = torch.randn(1, 2, 6, 8, requires_grad=True), torch.randn(1, 2, 20, 8), torch.randn(1, 2, 20, 8)
    with Counting() as counted:
        nearest(q, k, v, torch.ones(1, 1, 6, 20, dtype=torch.bool), scale=1.0, top=4)
    assert counted.total == 2 * 2 * 6 * 20 * 8 + 4 * 2 * 6 * 4 * 8


def test_a_short_convolution() -> None:
    x, first, lengths = torch.randn(10, 4), torch.tensor([0]), torch.tensor([10])
    with Counting() as counted:
        causal_conv(x, torch.randn(4, 3), torch.randn(4), torch.zeros(1, 2, 4), first, lengths)
    assert counted.total == 10 * 4 * 2 * 3


class Arithmetic(TorchDispatchMode):
    """Every sum, product, exponential of an equation as it is written: a number each."""

    ALONE = frozenset(("add", "sub", "mul", "div", "exp", "sigmoid", "tanh", "relu", "lerp"))

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        with Counting() as products:
            result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        self.total += products.total + (result.numel() if name in self.ALONE else 0)
        return result


def cases() -> dict[str, tuple[Any, Any, tuple[Any, ...]]]:
    torch.manual_seed(0)
    N, S, H, K = 12, 16, 2, 8
    first, lengths, runs = torch.tensor([0]), torch.tensor([T]), Runs(torch.tensor([0]), torch.tensor([T]), T)
    x = lambda *shape: torch.randn(*shape)
    row = x(1, N)
    return {
        "rnn": (rnn, rnn_naive, (x(T, N), row, x(N, N), "tanh", first, lengths)),
        "gru": (gru, gru_naive, (x(T, 3 * N), row, x(3 * N, N), x(3 * N)[:N], first, lengths)),
        "lstm": (lstm, lstm_naive, (x(T, 4 * N), row, row, x(4 * N, N), None, first, lengths)),
        "linear recurrence": (linear_recurrence, linear_recurrence_naive, (x(1, T, N), x(1, T, N), row)),
        "selective scan": (
            selective_scan,
            selective_scan_naive,
            (x(T, N), x(T, N).abs(), -x(N, S).abs(), x(T, S), x(T, S), x(N), x(1, S, N), first, lengths),
        ),
        "gated linear": (gated_linear, gated_linear_naive, (*(x(1, T, H, K) for _ in range(3)), -x(1, T, H, K).abs(), x(1, H, K, K))),
        "delta rule": (delta_rule, delta_rule_naive, (*(x(T, H, K) for _ in range(6)), x(1, H, K, K), runs)),
    }


@pytest.mark.parametrize("name", cases())
def test_kernels_count_what_their_equation_writes(name: str) -> None:
    """Within 5 %: a kernel leaves out an addition to zero here and there, or shares a product that the equation writes twice."""
    fast, naive, given = cases()[name]
    with Counting() as counted:
        fast(*given)
    with Arithmetic() as written:
        naive(*given)
    assert counted.total == pytest.approx(written.total, rel=0.05)


def test_counting_leaves_the_model_and_the_random_numbers_alone() -> None:
    net = model("decoder-tiny").train()
    before = torch.random.get_rng_state()
    first = count(net, tokens(8))
    torch.random.set_rng_state(before)
    again = count(net, tokens(8), lambda m, b: m(b)[0].square().sum())
    assert first == again
    assert all(weight.grad is None for weight in net.parameters())


def test_operations_of_a_batch_by_token() -> None:
    assert Flops(forward=100, training=300, tokens=10).training_per_token == 30
