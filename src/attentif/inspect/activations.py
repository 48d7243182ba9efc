"""What flows through a model: the residual stream after each sublayer, and what each mixer adds to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentif.models import Batch, Model, evaluating
from attentif.nn.block import Sublayer
from attentif.nn.seq import Seq


@dataclass(frozen=True, slots=True)
class Flow:
    """One sublayer's part: the stream that leaves it, and what its mixer gave. Padding holds any numbers."""

    stream: Tensor  # (B, T, D), or packed (N, D)
    branch: Tensor
    seq: Seq


@dataclass(frozen=True, slots=True)
class Norms:
    """Mean norms over the tokens of a batch."""

    stream: float  # of the residual stream after the sublayer
    branch: float  # of what its mixer gave


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[str, Flow]]:
    """While it is open, every forward fills in what each sublayer did; the tensors are those of the computation, history and all."""
    kept: dict[str, Flow] = {}
    branches: dict[str, Tensor] = {}
    hooks = []

    def listen(path: str, sublayer: Sublayer) -> None:
        def heard(_: nn.Module, __: Any, output: Tensor) -> None:
            branches[path] = output

        def left(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            kept[path] = Flow(output, branches[path], inputs[1])

        hooks.append(sublayer.mixer.register_forward_hook(heard))
        hooks.append(sublayer.register_forward_hook(left))

    for name, module in model.named_modules():
        if isinstance(module, Sublayer):
            listen(name, module)
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def activations(model: Model, batch: Batch) -> dict[str, Flow]:
    """What each sublayer did with this batch, by its path, from the first to the last.

    Reversible stacks, and the branches of a parallel sublayer, have no stream of their own to show and are left out.
    """
    with evaluating(model), watched(model) as kept:
        model.hidden(batch)
    return dict(kept)


def residual_norms(model: Model, batch: Batch) -> dict[str, Norms]:
    """How long the stream's vectors are after each sublayer, and how long what the sublayer's mixer gave, padding left out."""
    mean = lambda vectors, seq: float(torch.linalg.vector_norm(vectors[seq.valid].float(), dim=-1).mean())
    return {path: Norms(mean(flow.stream, flow.seq), mean(flow.branch, flow.seq)) for path, flow in activations(model, batch).items()}
