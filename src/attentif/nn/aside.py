"""What mixers say aside: losses of their own, and counts, handed over once per forward.

    with listening() as aside:
        loss = task.step(model, batch)
    objective = loss.total + loss.count * aside.loss

A mixture of experts wants its tokens spread evenly: that is a term of the loss which the task knows nothing of, made of numbers that
the model's output does not show. While someone listens, such a mixer hands both over; where nobody does (evaluation, decoding), it
works out neither. What is computed a second time in a backward pass is not heard twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor, nn

_open: ContextVar["Aside | None"] = ContextVar("aside", default=None)


class Counting(nn.Module):
    """A module that hands over counts: sums over tokens, which may be added over batches and processes."""

    numbers: int  # how many it hands over

    def learn(self, counts: Sequence[float]) -> None:
        """Called once after each step of the optimiser, with the counts of all its batches on all processes."""
        raise NotImplementedError

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        """The counts in words: what a line of metrics says."""
        raise NotImplementedError


class Aside:
    """What was said in one forward."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.counts: dict[nn.Module, Tensor] = {}

    def say(self, mixer: Counting, losses: Sequence[Tensor], counts: Tensor) -> None:
        """`losses`: differentiable, each the mean over the tokens of this call times its weight."""
        self.losses += losses
        self.counts[mixer] = self.counts[mixer] + counts if mixer in self.counts else counts

    @property
    def loss(self) -> Tensor | float:
        """The sum of the losses, to be added to the mean loss of a batch; differentiable wherever it is asked for, as they are."""
        with torch.enable_grad():
            return sum(self.losses, 0.0)


@contextmanager
def listening() -> Iterator[Aside]:
    """Hear what the mixers that run inside say."""
    aside = Aside()
    token = _open.set(aside)
    try:
        yield aside
    finally:
        _open.reset(token)


def listener() -> Aside | None:
    """Who listens, if anyone does."""
    return _open.get()


def unheard() -> AbstractContextManager[object]:
    """For what will be computed again: as now, if someone listens, and heard by nobody. The same operations must run a second time."""
    return nullcontext() if _open.get() is None else listening()
