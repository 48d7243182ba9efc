"""How the weights of a training are distributed: whole in every process (DDP), or in shards, a part of the rows in each (FSDP2).

    bytes a process, AdamW, P parameters, W processes      whole: 20 P       shards: 16 P / W + the largest block + what no block holds

In shards, a block's weights are gathered before it computes and dropped after it; gradients are summed straight into the rows of their
owners after every batch, so that no process ever holds all of them. Optimisers work on plain tensors, the rows that this process owns.
Embeddings, head, last norm and whatever is read outside a block's `forward` (reversible stacks, bridged decoders) stay gathered from the
forward of a batch to the end of its backward.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from attentif.models import Model
from attentif.nn.adapt import load_saved_state_dict, saved_state_dict
from attentif.nn.stack import Stack
from attentif.runtime import release_buffers
from attentif.tasks.predictors import Trainable, networks_of
from attentif.training.distributed import Ranks


class Layout(Protocol):
    """How the parameters of a training step are spread over the processes."""

    module: nn.Module  # the step, to be called
    sharded: bool
    divisor: int  # what the backward pass has divided summed gradients by

    def own(self, parameter: nn.Parameter) -> nn.Parameter:
        """What the optimiser of this process changes: the parameter, or its rows of it."""

    def take_gradients(self) -> None:
        """After the last backward of a step: gradients stand beside what `own` returns."""

    def norm(self, gradients: list[Tensor]) -> float:
        """The norm over all tensors and processes."""

    def last_batch_only(self) -> AbstractContextManager[None]:
        """Skip gradient synchronisation inside: another batch of the same step follows."""

    def evaluating(self, *, by_block: bool) -> AbstractContextManager[None]:
        """Inside, parts of the model may be called one by one; `by_block` where blocks are only called as training calls them."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that this process saves."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned."""

    def rows(self, name: str, shape: list[int]) -> slice:
        """The rows of a saved tensor that this process reads."""

    def orthogonalise(self, own: list[Tensor], shape: torch.Size, work: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Apply `work` to whole matrices (n, A, B) of which each process has its rows; return those of the results."""

    def shape(self, own: Tensor) -> torch.Size:
        """The shape of the whole parameter."""


class Whole:
    """Every process, or the only one, holds all weights; gradients are averaged by DDP."""

    sharded = False

    def __init__(self, step: nn.Module, model: Trainable, ranks: Ranks) -> None:
        self.module, self.model, self.ranks, self.divisor = ranks.wrap(step), model, ranks, ranks.world

    def own(self, parameter: nn.Parameter) -> nn.Parameter:
        return parameter

    def take_gradients(self) -> None: ...

    def norm(self, gradients: list[Tensor]) -> float:
        return float(nn.utils.get_total_norm(gradients))

    def last_batch_only(self) -> AbstractContextManager[None]:
        return self.ranks.without_sync(self.module)

    def evaluating(self, *, by_block: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def tensors(self) -> dict[str, Tensor]:
        return saved_state_dict(self.model)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        load_saved_state_dict(self.model, tensors)

    def rows(self, name: str, shape: list[int]) -> slice:
        return slice(None)

    def orthogonalise(self, own: list[Tensor], shape: torch.Size, work: Callable[[Tensor], Tensor]) -> list[Tensor]:
        return list(work(torch.stack(own)))

    def shape(self, own: Tensor) -> torch.Size:
        return own.shape


class Sharded:
    """Each process holds its rows of every parameter, of its gradient and of what the optimiser remembers of it."""

    sharded = True
    divisor = 1  # gradients are summed: gloo has no average, and torch takes its sum for one (pytorch#162338)

    def __init__(self, step: nn.Module, model: Trainable, ranks: Ranks) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self.model, self.ranks = model, ranks
        release_buffers()
        for tensor in (*model.parameters(), *model.buffers()):  # as DDP does: all begin with the first process's
            dist.broadcast(tensor.data, 0)
        mesh = init_device_mesh(ranks.device.type, (ranks.world,))
        self.blocks: list[Any] = [fully_shard(block, mesh=mesh) for block in blocks_of(model)]
        self.module: Any = fully_shard(step, mesh=mesh)
        for module in (self.module, *self.blocks):
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
        self.module._get_fsdp_state()._lazy_init()  # or the first block that is evaluated would take itself for the root
        self.leaves: dict[nn.Parameter, nn.Parameter] = {}
        self.shapes: dict[Tensor, torch.Size] = {}
        for parameter in model.parameters():
            leaf = nn.Parameter(local(parameter.detach()), requires_grad=parameter.requires_grad)
            self.leaves[parameter], self.shapes[leaf] = leaf, parameter.shape
        self.names = {name for name, _ in model.named_parameters()}

    def own(self, parameter: nn.Parameter) -> nn.Parameter:
        return self.leaves[parameter]

    def take_gradients(self) -> None:
        for parameter, leaf in self.leaves.items():
            leaf.grad = None if parameter.grad is None else local(parameter.grad)
            parameter.grad = None

    def norm(self, gradients: list[Tensor]) -> float:
        squares = [gradient.double().square().sum() for gradient in gradients if gradient.numel()]
        return self.ranks.sum([float(sum(squares, torch.zeros((), dtype=torch.float64)))])[0] ** 0.5

    def last_batch_only(self) -> AbstractContextManager[None]:
        return nullcontext()  # gradients kept back would have to be kept whole

    @contextmanager
    def evaluating(self, *, by_block: bool) -> Iterator[None]:
        gathered = [] if by_block else self.blocks
        for block in gathered:
            block.set_reshard_after_forward(False)
        for module in (self.module, *gathered):
            module.unshard()
        try:
            yield
        finally:
            for block in gathered:
                block.set_reshard_after_forward(True)
            for module in (self.module, *gathered):
                module.reshard()

    @torch.no_grad()
    def tensors(self) -> dict[str, Tensor]:
        """Rows of parameters; of what all processes hold alike, the first process's."""
        found = saved_state_dict(self.model)
        return {name: local(tensor) for name, tensor in found.items() if name in self.names or self.ranks.main}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        own = saved_state_dict(self.model)
        if differing := sorted((self.names & own.keys()) - tensors.keys() | (tensors.keys() - own.keys())):
            raise RuntimeError(f"missing or unexpected: {', '.join(differing[:8])}")
        for name, tensor in tensors.items():
            local(own[name]).copy_(tensor)

    def rows(self, name: str, shape: list[int]) -> slice:
        """`name` is a parameter's, or one of the optimiser's, all of which are numbers or have the shape of their parameter."""
        if not shape or (name not in self.names and not name.split(".")[0].isdigit()):
            return slice(None)
        return slice(*own_rows(shape[0], self.ranks.rank, self.ranks.world))

    def shape(self, own: Tensor) -> torch.Size:
        return self.shapes[own]

    def orthogonalise(self, own: list[Tensor], shape: torch.Size, work: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Distribute the matrices: process r gathers numbers r, r + W, ..., works on them, and sends all others their rows back."""
        rank, world, width = self.ranks.rank, self.ranks.world, shape[1]
        borders = [own_rows(shape[0], other, world) for other in range(world)]
        rows = [stop - start for start, stop in borders]
        dealt = [len(own[other::world]) for other in range(world)]
        mine = self._exchange(
            [torch.cat([tensor.flatten() for tensor in own[other::world]] or [own[0].new_empty(0)]) for other in range(world)],
            [dealt[rank] * count * width for count in rows],
        )
        whole = torch.cat([part.view(dealt[rank], count, width) for part, count in zip(mine, rows, strict=True)], 1)
        whole = work(whole) if dealt[rank] else whole
        back = self._exchange(
            [whole[:, start:stop].flatten() for start, stop in borders],
            [number * rows[rank] * width for number in dealt],
        )
        found: list[Tensor] = [own[0]] * len(own)
        for other, part in enumerate(back):
            found[other::world] = list(part.view(dealt[other], rows[rank], width))
        return found

    def _exchange(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """All-to-all: send a part to each process; return the received ones."""
        received = parts[0].new_empty(sum(sizes))
        dist.all_to_all_single(received, torch.cat(parts), sizes, [part.numel() for part in parts])
        return list(received.split(sizes))


def own_rows(count: int, rank: int, world: int) -> tuple[int, int]:
    """First and last (excluded) of the rows that a process owns, as FSDP2 cuts them."""
    size = -(-count // world)
    return min(rank * size, count), min((rank + 1) * size, count)


def blocks_of(model: Trainable) -> list[nn.Module]:
    """The blocks whose weights are read inside of their own `forward` only."""
    found: list[nn.Module] = []
    for network in networks_of(model):
        stacks = [stack for stack in network.children() if isinstance(stack, Stack) and not stack.reversible]
        if isinstance(network, Model) and network.config.bridge:
            stacks = []
        found += [block for stack in stacks for block in stack.blocks]
    return found


def local(tensor: Tensor) -> Tensor:
    """The rows that this process has."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """Gather all rows; a collective operation."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_sharded(model: nn.Module) -> bool:
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())
