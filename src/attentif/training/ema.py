"""An exponential moving average of the weights: θ̄ ← d·θ̄ + (1 - d)·θ after every step (Polyak & Juditsky 1992; Kingma & Ba 2015, 7.2).

The first averages would remember the random beginning for 1 / (1 - d) steps, so the decay grows into its value:
d_t = min(d, (1 + t) / (10 + t)). Only floating-point parameters are averaged; buffers are taken from the model as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The averaged weights of a model, kept beside it; `own` is what this process holds of a parameter."""

    def __init__(self, model: nn.Module, decay: float, own: Callable[[nn.Parameter], Tensor] = lambda parameter: parameter) -> None:
        self.decay = decay
        self.live = {name: own(p) for name, p in model.named_parameters() if p.requires_grad and p.is_floating_point()}
        self.mean = {name: p.detach().clone() for name, p in self.live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Follow the model after its optimiser's step number `step` (the first is 1)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.mean.values()), [p.detach() for p in self.live.values()], 1 - decay)

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Use the averaged weights inside the context; the model's own are restored afterwards."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self.live.values(), self.mean.values(), strict=True):
            before = parameter.clone()  # changed in place: shards are views of buffers
            parameter.copy_(mean)
            mean.copy_(before)

    def keep(self) -> None:
        """Replace the model's weights by the averaged ones."""
        self._swap()

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        for name, mean in self.mean.items():
            mean.copy_(state[name])
