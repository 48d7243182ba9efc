"""Sublayers, blocks, stacks: placements to the letter, names, refusals."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

import attentif.models  # noqa: F401  registers every kind
from attentif.errors import ConfigError
from attentif.nn.block import Block, Parallel, ParallelConfig, Sublayer, SublayerConfig, combine_caps
from attentif.nn.mixer import Caps, Site
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from attentif.nn.state import StateTree

WIDTH = 8
FFN = {"kind": "feed-forward", "activation": "gelu"}
ATTENTION = {"kind": "attention", "heads": 2, "causal": True}


def sublayer(site: dict[str, Any] | None = None, **values: Any) -> Sublayer:
    torch.manual_seed(0)
    layer = Sublayer(SublayerConfig.model_validate({"mixer": FFN, **values}), Site(width=WIDTH, **(site or {}))).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer.eval()


@pytest.mark.parametrize("placement", ["pre", "post", "both", "branch", "sandwich", "none"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_placements_are_their_formulas(placement: str, residual: bool, weight: float) -> None:
    layer = sublayer(placement=placement, residual=residual, weight=weight)
    x, seq = torch.randn(2, 3, WIDTH, dtype=torch.float64), Seq.from_padded([3, 3])
    f = lambda y: layer.mixer(y, seq)
    n, m, s = layer.norm_in, layer.norm_out, weight
    base = x if residual else torch.zeros_like(x)
    expected = {
        "pre": lambda: base + s * f(n(x)),
        "post": lambda: m(base + s * f(x)),
        "both": lambda: m(base + s * f(n(x))),
        "branch": lambda: base + s * m(f(x)),
        "sandwich": lambda: base + s * m(f(n(x))),
        "none": lambda: base + s * f(x),
    }[placement]()
    assert_close(layer(x, seq), expected)
    norms = [name for name, module in (("in", n), ("out", m)) if not isinstance(module, nn.Identity)]
    both = ["in", "out"]
    assert norms == {"pre": ["in"], "post": ["out"], "both": both, "branch": ["out"], "sandwich": both, "none": []}[placement]


def test_a_sublayer_takes_what_it_does_not_say_from_its_site() -> None:
    layer = sublayer(site={"placement": "post", "dropout": 0.25})
    assert (layer.placement, layer.dropout) == ("post", 0.25)
    own = sublayer(site={"placement": "post", "dropout": 0.25}, placement="pre", dropout=0.0)
    assert (own.placement, own.dropout) == ("pre", 0.0)


def test_dropout_acts_in_training_only() -> None:
    layer, x, seq = sublayer(dropout=0.5), torch.randn(1, 50, WIDTH, dtype=torch.float64), Seq.from_padded([50])
    assert torch.equal(layer(x, seq), layer(x, seq))
    dropped = (layer.train()(x, seq) == x).double().mean()
    assert 0.4 < dropped < 0.6


def stack(**values: Any) -> Stack:
    config = StackConfig.model_validate({"block": {"attn": {"mixer": ATTENTION}, "ffn": {"mixer": FFN}}} | values)
    return Stack(config, width=WIDTH, layers=4, dropout=0.0)


def test_states_are_keyed_by_sublayer_path() -> None:
    state = stack().init_state(2, 5, device=torch.device("cpu"), dtype=torch.float32)
    assert isinstance(state, StateTree)
    assert list(state)[:3] == ["blocks.0.attn", "blocks.0.ffn", "blocks.1.attn"]
    assert [path for path, _ in stack().sublayers()] == list(state)


def test_kinds_of_block_take_turns() -> None:
    near, far = {"near": {"mixer": ATTENTION}}, {"far": {"mixer": ATTENTION}}
    turns = stack(block={}, blocks=[{"repeat": 2, "sublayers": near}, {"sublayers": far}])
    assert [path for path, _ in turns.sublayers()] == ["blocks.0.near", "blocks.1.near", "blocks.2.far", "blocks.3.near"]
    with pytest.raises(ValidationError, match="either `block`"):
        stack(blocks=[{"sublayers": near}])
    with pytest.raises(ValidationError, match="either `block`"):
        stack(block={})


@pytest.mark.parametrize(
    ("placement", "expected"), [("pre", True), ("sandwich", True), ("branch", True), ("post", False), ("both", False), ("none", False)]
)
def test_the_last_norm_stands_where_the_placement_needs_it(placement: str, expected: bool) -> None:
    assert isinstance(stack(placement=placement).norm, nn.LayerNorm) == expected
    assert isinstance(stack(placement=placement, final_norm=not expected).norm, nn.LayerNorm) != expected


def test_the_shared_bias_is_one_module_of_the_stack() -> None:
    shared = stack(bias={"kind": "relative", "heads": 2})
    names = [name for name, _ in shared.named_parameters() if "table" in name]
    assert names == ["bias.table.weight"]
    assert all(layer.mixer.position_bias is shared.bias for path, layer in shared.sublayers() if path.endswith("attn"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block": {"attn": {"mixer": ATTENTION | {"heads": 3}}}}, r"blocks.0.attn: width = 8 is not a multiple of heads = 3"),
        ({"block": {"attn": {"mixer": ATTENTION | {"kv_heads": 3, "heads": 4}}}}, r"blocks.0.attn: heads = 4 is not a multiple"),
        ({"bias": {"kind": "alibi", "heads": 4}}, r"blocks.0.attn: the stack's bias has 4 heads, this attention 2"),
        ({"block": {"cross": {"mixer": {"kind": "cross-attention"}}}}, r"blocks.0.cross: cross-attention needs a memory"),
        ({"block": {"forward": {"mixer": FFN}}}, r"blocks.0.forward: not a valid name"),
        ({"block": {"a.b": {"mixer": FFN}}}, r"blocks.0.a.b: not a valid name"),
        ({"block": {"": {"mixer": FFN}}}, r"blocks.0.: not a valid name"),
    ],
)
def test_contradictions_are_refused_when_built_with_their_path(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stack(**values)


def parallel(**branches: Any) -> Parallel:
    return ParallelConfig.model_validate({"branches": branches}).build(Site(width=WIDTH, memory_width=WIDTH, dropout=0.5, placement="post"))


def test_branches_of_parallel_are_neither_normalised_nor_dropped_unless_they_say_so() -> None:
    both = parallel(a={"mixer": FFN}, b={"mixer": FFN, "placement": "pre"})
    placements = {name: (branch.placement, branch.dropout) for name, branch in both.branches.sublayers()}
    assert placements == {"a": ("none", 0.0), "b": ("pre", 0.0)}
    assert len(both.residual_outputs()) == 2


@pytest.mark.parametrize(
    ("branches", "message"),
    [
        ({"a": {"mixer": FFN}}, "two branches"),
        ({"a": {"mixer": FFN}, "b": {"mixer": {"kind": "cross-attention", "heads": 2}}}, "cannot read the memory"),
        ({"a": {"mixer": FFN}, "b": {"mixer": FFN, "placement": "post"}}, "a branch has no residual"),
    ],
)
def test_branches_that_make_no_sense_are_refused(branches: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parallel(**branches)


def test_together_mixers_can_do_what_the_least_able_can() -> None:
    exact = Caps(causal=True, bidirectional=False, streaming="exact", max_len=9)
    roughly = Caps(causal=True, bidirectional=False, streaming="approximate", packed=False)
    both_ways = Caps(causal=False, bidirectional=True, streaming="none", max_len=5)
    assert combine_caps([exact, roughly]) == Caps(causal=True, bidirectional=False, streaming="approximate", packed=False, max_len=9)
    assert combine_caps([exact, both_ways]) == Caps(causal=False, bidirectional=True, streaming="none", max_len=5)


def test_a_block_runs_its_sublayers_in_the_order_they_are_written() -> None:
    config = {name: SublayerConfig.model_validate({"mixer": FFN}) for name in ("z", "a", "m")}
    assert [name for name, _ in Block(config, Site(width=WIDTH)).sublayers()] == ["z", "a", "m"]


def test_a_learned_scale_multiplies_each_component_of_the_branch() -> None:
    layer = sublayer(scale=0.1, weight=0.5)
    x, seq = torch.randn(2, 3, WIDTH, dtype=torch.float64), Seq.from_padded([3, 3])
    assert layer.scale is not None
    assert_close(layer(x, seq), x + 0.5 * layer.scale * layer.mixer(layer.norm_in(x), seq))
    layer.init_weights()
    assert_close(layer.scale.detach(), torch.full((WIDTH,), 0.1, dtype=torch.float64))
