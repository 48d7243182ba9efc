"""Reversible residual blocks: activations are recomputed in the backward pass, not stored.

    y1 = x1 + F(x2),   y2 = x2 + G(y1)          backwards   x2 = y2 − G(y1),   x1 = y1 − F(x2)          (Gomez et al. 2017)

F and G are the two sublayers of a block (Kitaev et al. 2020, section 3). Training stores only the last block's (y1, y2); the backward pass
recomputes each block's inputs from its outputs. Dropout is repeated from the same random state, discrete choices (hash buckets) are stored,
see `reuse_choice`; tapes and auxiliary losses see the first run only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.utils.checkpoint import get_device_states, set_device_states

from attentif.nn.auxiliary import Auxiliary, collect_auxiliary, current_auxiliary
from attentif.nn.block import Block, Sublayer, SublayerConfig
from attentif.nn.norm import Placement
from attentif.nn.seq import Seq
from attentif.nn.tape import pause_recording

Halves = tuple[Tensor, Tensor]


def check_reversible(sublayers: Mapping[str, SublayerConfig], placement: Placement) -> None:
    """Refuse blocks that are not reversible."""
    if len(sublayers) != 2:
        raise ValueError(f"a reversible block has two sublayers, not {len(sublayers)} ({', '.join(sublayers)})")
    for name, sublayer in sublayers.items():
        if (sublayer.placement or placement) in ("post", "both") or not sublayer.residual:
            raise ValueError(
                f"{name}: a reversible block adds its sublayers' outputs: placement cannot be post or both, and residual must stay true"
            )


@dataclass(slots=True)
class BlockInputs:
    """Inputs of every sublayer besides x."""

    seq: Seq
    memory: Tensor | None = None
    memory_seq: Seq | None = None


def run(blocks: Sequence[Block], x: Halves, around: BlockInputs, states: Sequence[Any] | None = None) -> Halves:
    """Run the blocks with ordinary autograd."""
    first, second = x
    for number, block in enumerate(blocks):
        (one, f), (two, g) = block.sublayers()
        own = None if states is None else states[number]
        rest = around.seq, around.memory, around.memory_seq
        first = first + f.branch(second, *rest, None if own is None else own[one])
        second = second + g.branch(first, *rest, None if own is None else own[two])
    return first, second


def run_reversibly(stack: nn.Module, blocks: Sequence[Block], x: Halves, around: BlockInputs) -> Halves:
    """Run the blocks, storing only the last block's output for the backward pass."""
    tensors = {name: p for name, p in stack.named_parameters() if name.startswith(("blocks.", "bias."))}
    plan = _Plan(stack, blocks, around, list(tensors), auxiliary=current_auxiliary())
    first, second, loss = _Reversible.apply(plan, *x, around.memory, *tensors.values())
    if plan.auxiliary is not None and plan.has_loss:
        plan.auxiliary.losses.append(loss)
    return first, second


_choices: ContextVar["Iterator[Tensor] | list[Tensor] | None"] = ContextVar("choices", default=None)


def reuse_choice(choose: Callable[[], Tensor]) -> Tensor:
    """Make a discrete choice, or reuse it when the block is recomputed.

    Recomputed inputs differ from the first ones by rounding, which could change the choice.
    """
    choices = _choices.get()
    if choices is None:
        return choose()
    if isinstance(choices, list):
        choices.append(choose())
        return choices[-1]
    return next(choices)


@contextmanager
def _use_choices(choices: "Iterator[Tensor] | list[Tensor]") -> Iterator[None]:
    token = _choices.set(choices)
    try:
        yield
    finally:
        _choices.reset(token)


@dataclass(slots=True)
class _SublayerCall:
    """Random state and choices needed to recompute one sublayer."""

    name: str  # its path in the stack
    random: Tensor  # the state of the generator before it ran
    devices: tuple[Any, Any]  # the same of other devices
    choices: list[Tensor]


@dataclass(slots=True)
class _Plan:
    stack: nn.Module
    blocks: Sequence[Block]
    around: BlockInputs
    names: list[str]  # of the parameters
    auxiliary: Auxiliary | None
    has_loss: bool = False  # whether some sublayer added an auxiliary loss
    moments: list[_SublayerCall] = field(default_factory=list)


class _Sublayer(nn.Module):
    """One sublayer as a module of the whole stack, for `functional_call` with its parameters."""

    def __init__(self, stack: nn.Module, name: str) -> None:
        super().__init__()
        self.stack, self.name = stack, name

    def forward(self, x: Tensor, around: BlockInputs, memory: Tensor | None) -> Tensor:
        sublayer = self.stack.get_submodule(self.name)
        assert isinstance(sublayer, Sublayer)
        return sublayer.branch(x, around.seq, memory, around.memory_seq)


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, first: Tensor, second: Tensor, memory: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        loss = first.new_zeros(())
        for number, block in enumerate(plan.blocks):
            (one, f), (two, g) = block.sublayers()
            first = first + _run_recorded(plan, f, f"blocks.{number}.{one}", second, loss)
            second = second + _run_recorded(plan, g, f"blocks.{number}.{two}", first, loss)
        ctx.plan = plan
        ctx.save_for_backward(first, second, memory, *tensors)
        return first, second, loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_first: Tensor, d_second: Tensor, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        first, second, memory, *tensors = ctx.saved_tensors
        again = _Recompute(ctx.plan, memory, tensors, d_loss)
        moments = list(ctx.plan.moments)
        with pause_recording():
            while moments:
                g, f = moments.pop(), moments.pop()
                change, gradient = again(g, first, d_second)
                second, d_first = second - change, d_first + gradient
                change, gradient = again(f, second, d_first)
                first, d_second = first - change, d_second + gradient
        return None, d_first, d_second, again.d_memory, *again.d_tensors


def _run_recorded(plan: _Plan, sublayer: Sublayer, name: str, x: Tensor, loss: Tensor) -> Tensor:
    around = plan.around
    moment = _SublayerCall(name, torch.get_rng_state(), get_device_states(x), [])
    plan.moments.append(moment)
    with _use_choices(moment.choices):
        if plan.auxiliary is None:
            return sublayer.branch(x, around.seq, around.memory, around.memory_seq)
        with collect_auxiliary() as auxiliary:
            y = sublayer.branch(x, around.seq, around.memory, around.memory_seq)
    for mixer, counts in auxiliary.counts.items():
        plan.auxiliary.add(mixer, (), counts)
    if auxiliary.losses:
        plan.has_loss = True
        loss += auxiliary.loss
    return y


class _Recompute:
    """Recomputes a sublayer and backpropagates through it."""

    def __init__(self, plan: _Plan, memory: Tensor | None, tensors: list[Tensor], d_loss: Tensor) -> None:
        self.plan, self.tensors, self.d_loss = plan, tensors, d_loss
        self.memory = None if memory is None else memory.detach().requires_grad_(memory.requires_grad)
        self.d_memory: Tensor | None = None
        self.d_tensors: list[Tensor | None] = [None] * len(tensors)
        self.collect: Callable[[], AbstractContextManager[Auxiliary | None]] = nullcontext if plan.auxiliary is None else collect_auxiliary

    def __call__(self, moment: _SublayerCall, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sublayer's output and the gradient of its input."""
        own = [n for n, name in enumerate(self.plan.names) if name.startswith((f"{moment.name}.", "bias."))]
        named = {f"stack.{self.plan.names[n]}": self.tensors[n].detach().requires_grad_(self.tensors[n].requires_grad) for n in own}
        x = x.detach().requires_grad_()
        devices, states = moment.devices
        with torch.enable_grad(), _use_choices(iter(moment.choices)), torch.random.fork_rng(devices), self.collect() as auxiliary:
            torch.set_rng_state(moment.random)
            set_device_states(devices, states)
            y = functional_call(_Sublayer(self.plan.stack, moment.name), named, (x, self.plan.around, self.memory))
        outputs, gradients = [y], [gradient]
        if auxiliary is not None and auxiliary.losses:
            outputs, gradients = [y, auxiliary.loss], [gradient, self.d_loss]
        trained = {n: weight for n, weight in zip(own, named.values(), strict=True) if weight.requires_grad}
        memory = [self.memory] if self.memory is not None and self.memory.requires_grad else []
        dx, *rest = torch.autograd.grad(outputs, [x, *trained.values(), *memory], gradients, allow_unused=True)
        for n, change in zip(trained, rest, strict=False):
            self.d_tensors[n] = _sum(self.d_tensors[n], change)
        if memory:
            self.d_memory = _sum(self.d_memory, rest[-1])
        return y.detach(), torch.zeros_like(x) if dx is None else dx


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other
