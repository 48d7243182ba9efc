"""A stack that runs backwards: the gradients of one that keeps everything, in the memory of a single block."""

import copy
import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import attentif.models  # noqa: F401  registers every kind
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.reversible import BlockInputs, reuse_choice, run
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from attentif.nn.tape import record

# Inputs worked out backwards differ from the first ones by a rounding of float64 for each block, 1e-16 beside activations near 1.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
LENGTHS = (7, 19, 1, 12)

ATTENTION: dict[str, Any] = {"mixer": {"kind": "attention", "heads": 2, "causal": True}}
LSH: dict[str, Any] = {"mixer": {"kind": "reformer", "heads": 2, "causal": True, "chunk": 4, "rounds": 2, "redraw": True}}
LOCAL: dict[str, Any] = {"mixer": {"kind": "chunked", "heads": 2, "causal": True, "chunk": 4}}
CROSS: dict[str, Any] = {"mixer": {"kind": "cross-attention", "heads": 2}}
FFN: dict[str, Any] = {"mixer": {"kind": "feed-forward", "dropout": 0.2}}
RELATIVE = {"kind": "relative", "heads": 2, "buckets": 8, "max_distance": 20, "bidirectional": False}
STACKS: dict[str, dict[str, Any]] = {
    "pre": {"block": {"attn": ATTENTION, "ffn": FFN}},
    "sandwich-concat": {"block": {"attn": ATTENTION, "ffn": FFN | {"weight": 0.5}}, "placement": "sandwich", "halves": "concat"},
    "shared-bias": {"block": {"attn": ATTENTION, "ffn": FFN}, "bias": RELATIVE},
    "reformer": {"blocks": [{"sublayers": {"attn": LOCAL, "ffn": FFN}}, {"sublayers": {"attn": LSH, "ffn": FFN}}]},
    "memory": {"block": {"cross": CROSS, "ffn": FFN}},
}


def built(name: str, layers: int = 3, dropout: float = 0.3) -> Stack:
    torch.manual_seed(0)
    config = StackConfig.model_validate({"reversible": True} | STACKS[name])
    stack = Stack(config, width=8, layers=layers, dropout=dropout, memory_width=6 if name == "memory" else None).double()
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.4)
    return stack.train()


def inputs(name: str, layout: str = "padded") -> tuple[Tensor, Seq, Tensor | None, Seq | None]:
    generator = torch.Generator().manual_seed(1)
    seq = Seq.from_padded(LENGTHS) if layout == "padded" else Seq.from_packed(LENGTHS)
    x = torch.randn(*seq.pos.shape, 8, dtype=torch.float64, generator=generator).requires_grad_()
    if name != "memory":
        return x, seq, None, None
    return x, seq, torch.randn(4, 5, 6, dtype=torch.float64, generator=generator).requires_grad_(), Seq.from_padded([5, 3, 1, 4])


def kept(stack: Stack, x: Tensor, seq: Seq, memory: Tensor | None, memory_seq: Seq | None) -> Tensor:
    """The same stack with all its activations kept by autograd."""
    first, second = run(list(stack.blocks), (x, x), BlockInputs(seq, memory, memory_seq))  # type: ignore[arg-type]
    return stack.norm(torch.cat([first, second], -1) if stack.halves == "concat" else (first + second) / 2)


def gradients(stack: Stack, y: Tensor, seq: Seq, *more: Tensor | None) -> list[Tensor]:
    probe = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    wanted = [*stack.parameters(), *(t for t in more if t is not None)]
    return list(torch.autograd.grad((y * probe)[seq.valid].sum(), wanted))


every_stack = pytest.mark.parametrize("name", STACKS)


@every_stack
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_gradients_are_those_of_the_same_stack_kept_in_memory(name: str, layout: str) -> None:
    stack, (x, seq, memory, memory_seq) = built(name), inputs(name, layout)
    torch.manual_seed(5)
    expected = kept(stack, x, seq, memory, memory_seq)
    after = torch.rand(3)
    torch.manual_seed(5)
    y = stack(x, seq, memory, memory_seq)
    assert_close(y[seq.valid], expected[seq.valid], **CLOSE)  # without gradients torch may take another kernel: not to the bit
    assert torch.equal(torch.rand(3), after)
    going_on = torch.get_rng_state()
    found = gradients(stack, y, seq, x, memory)
    assert torch.equal(torch.get_rng_state(), going_on)  # the backward pass leaves the random state as it was
    assert_close(found, gradients(stack, expected, seq, x, memory), **CLOSE)


@every_stack
def test_nothing_is_recorded_twice(name: str) -> None:
    stack, (x, seq, memory, memory_seq) = built(name), inputs(name)
    with record(stack) as tape:
        gradients(stack, stack(x, seq, memory, memory_seq), seq, x)
    assert len(tape.records) == 3
    assert all(len(records) == 1 for records in tape.records.values())


@every_stack
def test_without_gradients_the_output_is_the_same(name: str) -> None:
    stack, (x, seq, memory, memory_seq) = built(name).eval(), inputs(name)
    with torch.no_grad():
        assert torch.equal(stack(x, seq, memory, memory_seq), kept(stack, x, seq, memory, memory_seq))


def test_pieces_read_with_a_state_equal_the_whole() -> None:
    stack, (x, *_) = built("pre").eval(), inputs("pre")
    x, seq = x[1:2].detach(), Seq.from_padded([19])
    whole = stack(x, seq)
    for enabled in (False, True):
        with torch.set_grad_enabled(enabled):
            state = stack.init_state(1, 19, device=x.device, dtype=x.dtype)
            pieces = [stack(x[:, a:b], Seq.from_padded([b - a], start=a), state=state) for a, b in ((0, 8), (8, 9), (9, 19))]
            assert_close(torch.cat(pieces, 1), whole, **CLOSE)


def test_a_functional_call_differentiates_the_parameters_it_is_given() -> None:
    stack, (x, seq, *_) = built("shared-bias", dropout=0.0).eval(), inputs("shared-bias")
    changed = {name: (value * 1.5).detach().requires_grad_() for name, value in stack.named_parameters()}
    other = copy.deepcopy(stack)
    other.load_state_dict(changed)
    y = torch.func.functional_call(stack, changed, (x, seq))
    found = torch.autograd.grad(y[seq.valid].square().sum(), list(changed.values()))
    z = other(x, seq)
    assert_close(found, torch.autograd.grad(z[seq.valid].square().sum(), list(other.parameters())), **CLOSE)


def test_frozen_parameters_stay_out_of_it() -> None:
    stack, (x, seq, *_) = built("pre"), inputs("pre")
    stack.blocks[1].requires_grad_(False)
    stack(x, seq)[seq.valid].square().sum().backward()
    assert all((p.grad is None) == name.startswith("blocks.1.") for name, p in stack.named_parameters())


def test_memory_does_not_grow_with_depth() -> None:
    """What autograd keeps of a forward pass: nothing for each block but a random state and, of a hash, its choices."""

    def held(layers: int, reversible: bool) -> int:
        stack, (x, seq, *_) = built("reformer", layers), inputs("reformer")
        sizes: dict[int, int] = {}

        def keep(t: Tensor) -> Tensor:
            if t.is_floating_point() and not isinstance(t, nn.Parameter):
                sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            y = stack(x, seq) if reversible else kept(stack, x, seq, None, None)
        gc.collect()
        assert y.requires_grad
        parameters = {p.untyped_storage().data_ptr() for p in stack.parameters()}
        return sum(size for pointer, size in sizes.items() if pointer not in parameters)

    assert held(12, reversible=True) == held(2, reversible=True)
    assert held(12, reversible=False) > 5 * held(2, reversible=False)


def test_a_loss_said_aside_is_heard_once_and_has_its_gradient() -> None:
    experts: dict[str, Any] = {"mixer": {"kind": "experts", "experts": 4, "top_k": 2, "balance": [{"kind": "switch"}]}}
    config = StackConfig.model_validate({"reversible": True, "block": {"attn": ATTENTION, "moe": experts}})
    torch.manual_seed(0)
    stack = Stack(config, width=8, layers=2, dropout=0.0).double().train()
    x, seq, *_ = inputs("pre")
    found = []
    for way in (stack, lambda x, seq: kept(stack, x, seq, None, None)):
        with collect_auxiliary() as auxiliary:
            y = way(x, seq)
        assert len(auxiliary.counts) == 2
        found.append(torch.autograd.grad(y[seq.valid].square().sum() + 3 * auxiliary.loss, [*stack.parameters(), x]))
    assert_close(found[0], found[1], **CLOSE)


def test_a_choice_is_made_once_outside_of_a_stack_each_time() -> None:
    made = [reuse_choice(lambda n=n: torch.tensor(n)) for n in range(2)]
    assert [int(choice) for choice in made] == [0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block": {"attn": ATTENTION}}, "two sublayers, not 1"),
        ({"block": {"attn": ATTENTION, "ffn": FFN}, "placement": "post"}, "attn: a reversible block adds"),
        ({"block": {"attn": ATTENTION, "ffn": FFN | {"residual": False}}}, "ffn: a reversible block adds"),
        ({"block": {"attn": ATTENTION, "ffn": FFN}, "reversible": False, "halves": "concat"}, "needs reversible = true"),
    ],
)
def test_refusals(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StackConfig.model_validate({"reversible": True} | values)
