"""Auxiliary losses and statistics that modules emit beside their outputs, once per forward.

    with collect_auxiliary() as auxiliary:
        loss = task.step(model, batch)
    objective = loss.total + loss.count * auxiliary.loss

A mixture of experts, for example, adds a load-balancing loss that the task does not know. Inside `collect_auxiliary` modules add losses
and counts; outside (evaluation, decoding) they compute neither. Recomputation in a backward pass adds nothing twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor, nn

_current: ContextVar["Auxiliary | None"] = ContextVar("auxiliary", default=None)


class CountingModule(nn.Module):
    """A module that emits counts: sums over tokens, which can be added over batches and ranks."""

    numbers: int  # number of counts

    def learn(self, counts: Sequence[float]) -> None:
        """Update from the counts summed over batches and ranks; called after each optimiser step."""
        raise NotImplementedError

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        """Turn the counts into named metrics."""
        raise NotImplementedError


class Auxiliary:
    """The auxiliary losses and counts of one forward."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.counts: dict[CountingModule, Tensor] = {}

    def add(self, module: CountingModule, losses: Sequence[Tensor], counts: Tensor) -> None:
        """`losses`: differentiable, each the mean over the tokens of this call times its weight."""
        self.losses += losses
        self.counts[module] = self.counts[module] + counts if module in self.counts else counts

    @property
    def loss(self) -> Tensor | float:
        """The sum of the losses, to be added to the mean loss of a batch; differentiable even under `no_grad`."""
        with torch.enable_grad():
            return sum(self.losses, 0.0)


@contextmanager
def collect_auxiliary() -> Iterator[Auxiliary]:
    """Collect the auxiliary losses and counts of the modules that run inside."""
    auxiliary = Auxiliary()
    token = _current.set(auxiliary)
    try:
        yield auxiliary
    finally:
        _current.reset(token)


def current_auxiliary() -> Auxiliary | None:
    """The innermost open collection, or None."""
    return _current.get()


def discard_auxiliary() -> AbstractContextManager[object]:
    """Run the same operations but discard the results, for recomputation in a backward pass."""
    return nullcontext() if _current.get() is None else collect_auxiliary()
