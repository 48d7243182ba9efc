"""Activations: the residual stream after each sublayer, and each mixer's output."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentif.models import Batch, Model, eval_mode
from attentif.nn.block import Sublayer
from attentif.nn.seq import Seq


@dataclass(frozen=True, slots=True)
class Flow:
    """One sublayer's output stream and its mixer's output. Padding holds arbitrary numbers."""

    stream: Tensor  # (B, T, D), or packed (N, D)
    branch: Tensor
    seq: Seq


@dataclass(frozen=True, slots=True)
class Norms:
    """Mean norms over the tokens of a batch."""

    stream: float  # of the residual stream after the sublayer
    branch: float  # of what its mixer gave


@contextmanager
def capture_flows(model: nn.Module) -> Iterator[dict[str, Flow]]:
    """While open, every forward fills in each sublayer's outputs, still attached to the graph."""
    kept: dict[str, Flow] = {}
    branches: dict[str, Tensor] = {}
    hooks = []

    def attach(path: str, sublayer: Sublayer) -> None:
        def save_branch(_: nn.Module, __: Any, output: Tensor) -> None:
            branches[path] = output

        def save_stream(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            kept[path] = Flow(output, branches[path], inputs[1])

        hooks.append(sublayer.mixer.register_forward_hook(save_branch))
        hooks.append(sublayer.register_forward_hook(save_stream))

    for name, module in model.named_modules():
        if isinstance(module, Sublayer):
            attach(name, module)
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def activations(model: Model, batch: Batch) -> dict[str, Flow]:
    """Return each sublayer's outputs on this batch by path, first to last.

    Reversible stacks, and the branches of a parallel sublayer, have no stream of their own to show and are left out.
    """
    with eval_mode(model), capture_flows(model) as kept:
        model.hidden(batch)
    return dict(kept)


def residual_norms(model: Model, batch: Batch) -> dict[str, Norms]:
    """Return mean norms of the stream and of the mixer's output at each sublayer, without padding."""
    mean = lambda vectors, seq: float(torch.linalg.vector_norm(vectors[seq.valid].float(), dim=-1).mean())
    return {path: Norms(mean(flow.stream, flow.seq), mean(flow.branch, flow.seq)) for path, flow in activations(model, batch).items()}
