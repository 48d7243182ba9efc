"""Residual blocks that can be run backwards, so that a deep stack keeps the activations of none of its blocks.

    y1 = x1 + F(x2),   y2 = x2 + G(y1)          backwards   x2 = y2 − G(y1),   x1 = y1 − F(x2)          (Gomez et al. 2017)

F and G are the two sublayers of a block (Reformer: attention and feed-forward; Kitaev et al. 2020, section 3). In training, only the
last block's (y1, y2) are kept; the backward pass works the inputs of each block out again from its outputs, and F and G with them.
What was random the first time (dropout) is drawn from the same random state; what was a choice (the buckets of a hash) is kept, see
`decided`; a tape or a listener hears the first time only.
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

from attentif.nn.aside import Aside, listener, listening
from attentif.nn.block import Block, Sublayer, SublayerConfig
from attentif.nn.norm import Placement
from attentif.nn.seq import Seq
from attentif.nn.tape import paused

Halves = tuple[Tensor, Tensor]


def refuse_irreversible(sublayers: Mapping[str, SublayerConfig], placement: Placement) -> None:
    """Blocks that cannot be run backwards."""
    if len(sublayers) != 2:
        raise ValueError(f"a reversible block has two sublayers, not {len(sublayers)} ({', '.join(sublayers)})")
    for name, sublayer in sublayers.items():
        if (sublayer.placement or placement) in ("post", "both") or not sublayer.residual:
            raise ValueError(
                f"{name}: a reversible block adds what its sublayers give: none may be normalised after the sum, nor replace it"
            )


@dataclass(slots=True)
class Surroundings:
    """What every sublayer is given besides its own input."""

    seq: Seq
    memory: Tensor | None = None
    memory_seq: Seq | None = None


def run(blocks: Sequence[Block], x: Halves, around: Surroundings, states: Sequence[Any] | None = None) -> Halves:
    """Forwards, everything kept that autograd wants."""
    first, second = x
    for number, block in enumerate(blocks):
        (one, f), (two, g) = block.sublayers()
        own = None if states is None else states[number]
        rest = around.seq, around.memory, around.memory_seq
        first = first + f.branch(second, *rest, None if own is None else own[one])
        second = second + g.branch(first, *rest, None if own is None else own[two])
    return first, second


def run_reversibly(stack: nn.Module, blocks: Sequence[Block], x: Halves, around: Surroundings) -> Halves:
    """The same, keeping the last block's output only."""
    tensors = {name: p for name, p in stack.named_parameters() if name.startswith(("blocks.", "bias."))}
    plan = _Plan(stack, blocks, around, list(tensors), aside=listener())
    first, second, loss = _Reversible.apply(plan, *x, around.memory, *tensors.values())
    if plan.aside is not None and plan.spoke:
        plan.aside.losses.append(loss)
    return first, second


_choices: ContextVar["Iterator[Tensor] | list[Tensor] | None"] = ContextVar("choices", default=None)


def decided(choose: Callable[[], Tensor]) -> Tensor:
    """A choice that must come out the same when a block is computed again.

    Inputs worked out backwards differ from the first ones by a rounding, which may tip the balance between two buckets.
    """
    choices = _choices.get()
    if choices is None:
        return choose()
    if isinstance(choices, list):
        choices.append(choose())
        return choices[-1]
    return next(choices)


@contextmanager
def _deciding(choices: "Iterator[Tensor] | list[Tensor]") -> Iterator[None]:
    token = _choices.set(choices)
    try:
        yield
    finally:
        _choices.reset(token)


@dataclass(slots=True)
class _Moment:
    """What one sublayer needs to be computed again."""

    name: str  # its path in the stack
    random: Tensor  # the state of the generator before it ran
    devices: tuple[Any, Any]  # the same of other devices
    choices: list[Tensor]


@dataclass(slots=True)
class _Plan:
    stack: nn.Module
    blocks: Sequence[Block]
    around: Surroundings
    names: list[str]  # of the parameters
    aside: Aside | None
    spoke: bool = False  # whether some sublayer had a loss of its own
    moments: list[_Moment] = field(default_factory=list)


class _Sublayer(nn.Module):
    """One sublayer as a module of the whole stack, whose parameters (a shared bias too) can then be given from outside."""

    def __init__(self, stack: nn.Module, name: str) -> None:
        super().__init__()
        self.stack, self.name = stack, name

    def forward(self, x: Tensor, around: Surroundings, memory: Tensor | None) -> Tensor:
        sublayer = self.stack.get_submodule(self.name)
        assert isinstance(sublayer, Sublayer)
        return sublayer.branch(x, around.seq, memory, around.memory_seq)


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, first: Tensor, second: Tensor, memory: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        loss = first.new_zeros(())
        for number, block in enumerate(plan.blocks):
            (one, f), (two, g) = block.sublayers()
            first = first + _first_time(plan, f, f"blocks.{number}.{one}", second, loss)
            second = second + _first_time(plan, g, f"blocks.{number}.{two}", first, loss)
        ctx.plan = plan
        ctx.save_for_backward(first, second, memory, *tensors)
        return first, second, loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_first: Tensor, d_second: Tensor, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        first, second, memory, *tensors = ctx.saved_tensors
        again = _Again(ctx.plan, memory, tensors, d_loss)
        moments = list(ctx.plan.moments)
        with paused():
            while moments:
                g, f = moments.pop(), moments.pop()
                change, gradient = again(g, first, d_second)
                second, d_first = second - change, d_first + gradient
                change, gradient = again(f, second, d_first)
                first, d_second = first - change, d_second + gradient
        return None, d_first, d_second, again.d_memory, *again.d_tensors


def _first_time(plan: _Plan, sublayer: Sublayer, name: str, x: Tensor, loss: Tensor) -> Tensor:
    around = plan.around
    moment = _Moment(name, torch.get_rng_state(), get_device_states(x), [])
    plan.moments.append(moment)
    with _deciding(moment.choices):
        if plan.aside is None:
            return sublayer.branch(x, around.seq, around.memory, around.memory_seq)
        with listening() as aside:
            y = sublayer.branch(x, around.seq, around.memory, around.memory_seq)
    for mixer, counts in aside.counts.items():
        plan.aside.say(mixer, (), counts)  # type: ignore[arg-type]
    if aside.losses:
        plan.spoke = True
        loss += aside.loss
    return y


class _Again:
    """A sublayer computed a second time, and the gradients that pass through it."""

    def __init__(self, plan: _Plan, memory: Tensor | None, tensors: list[Tensor], d_loss: Tensor) -> None:
        self.plan, self.tensors, self.d_loss = plan, tensors, d_loss
        self.memory = None if memory is None else memory.detach().requires_grad_(memory.requires_grad)
        self.d_memory: Tensor | None = None
        self.d_tensors: list[Tensor | None] = [None] * len(tensors)
        self.listening: Callable[[], AbstractContextManager[Aside | None]] = nullcontext if plan.aside is None else listening

    def __call__(self, moment: _Moment, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The sublayer's output, and the gradient of its input, `gradient` being that of its output."""
        own = [n for n, name in enumerate(self.plan.names) if name.startswith((f"{moment.name}.", "bias."))]
        named = {f"stack.{self.plan.names[n]}": self.tensors[n].detach().requires_grad_(self.tensors[n].requires_grad) for n in own}
        x = x.detach().requires_grad_()
        devices, states = moment.devices
        with torch.enable_grad(), _deciding(iter(moment.choices)), torch.random.fork_rng(devices), self.listening() as aside:
            torch.set_rng_state(moment.random)
            set_device_states(devices, states)
            y = functional_call(_Sublayer(self.plan.stack, moment.name), named, (x, self.plan.around, self.memory))
        outputs, gradients = [y], [gradient]
        if aside is not None and aside.losses:
            outputs, gradients = [y, aside.loss], [gradient, self.d_loss]
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
