"""Head importance and ablation (Michel, Levy & Neubig 2019).

A gate ξ_h = 1 multiplies what head h gives, before the output projection mixes the heads:

    I_h = mean over examples of | ∂L(x) / ∂ξ_h |        importance: one backward pass for all heads
    A_h = L with ξ_h = 0, minus L                       ablation: a forward pass for each head, what importance approximates
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attentif.errors import UsageError
from attentif.inspect.gradients import Loss
from attentif.models import Batch, Model, eval_mode
from attentif.nn.mixer import CrossMixer, Mixer
from attentif.nn.tape import sublayer_path


def count_heads(model: nn.Module) -> dict[str, int]:
    """Return the number of heads of every multi-head mixer by path."""
    return {path: heads for path, (_, heads) in _find_heads(model).items()}


def _find_heads(model: nn.Module) -> dict[str, tuple[nn.Linear, int]]:
    found = {}
    for name, module in model.named_modules():
        heads, out = getattr(module, "heads", None), getattr(module, "out", None)
        if (
            isinstance(module, Mixer | CrossMixer)
            and isinstance(heads, int)
            and isinstance(out, nn.Linear)
            and out.in_features % heads == 0
        ):
            found[sublayer_path(name)] = (out, heads)
    return found


@contextmanager
def head_gates(model: nn.Module, gates: Mapping[str, Tensor]) -> Iterator[None]:
    """While open, multiply each head's output by its gate (H,) or (B, H), by path of the mixer."""
    known = _find_heads(model)
    with ExitStack() as hooks:
        for path, gate in gates.items():
            if path not in known:
                raise UsageError(f"there are no heads at {path!r}; there are: {', '.join(known) or 'none'}")
            out, heads = known[path]
            hooks.callback(out.register_forward_pre_hook(_make_gate_hook(gate, heads)).remove)
        yield


def _make_gate_hook(gate: Tensor, heads: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Tensor]]:
    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
        y = inputs[0].unflatten(-1, (heads, -1))  # (B, T, H, K), or (N, H, K)
        if gate.dim() == 1:
            return ((y * gate[:, None]).flatten(-2),)
        if y.dim() != 4:
            raise UsageError("gates of each row need padded rows, not packed ones")
        return ((y * gate[:, None, :, None]).flatten(-2),)

    return hook


@contextmanager
def without_heads(model: nn.Module, removed: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """While open, zero these heads: `without_heads(model, {"encoder.blocks.0.attn": [1, 3]})`."""
    known = count_heads(model)
    device = next(model.parameters()).device
    gates = {}
    for path, numbers in removed.items():
        gates[path] = torch.ones(known.get(path, 1), device=device)
        if path in known and not all(0 <= number < known[path] for number in numbers):
            raise UsageError(f"{path} has heads 0 to {known[path] - 1}, not {list(numbers)}")
        if path in known:
            gates[path][list(numbers)] = 0
    with head_gates(model, gates):
        yield


def head_importance(model: Model, batches: Iterable[Batch], loss: Loss) -> dict[str, Tensor]:
    """Return I_h (H,) of every multi-head mixer; the loss must be a sum over the examples."""
    known = count_heads(model)
    device = next(model.parameters()).device
    totals = {path: torch.zeros(heads, device=device) for path, heads in known.items()}
    examples = 0
    for batch in batches:
        rows = batch.source.seq.batch
        gates = {path: torch.ones(rows, heads, device=device, requires_grad=True) for path, heads in known.items()}
        with eval_mode(model), torch.enable_grad(), head_gates(model, gates):
            total = loss(model, batch)
        gradients = torch.autograd.grad(total, list(gates.values()), allow_unused=True)
        for path, gradient in zip(known, gradients, strict=True):
            totals[path] += 0 if gradient is None else gradient.abs().sum(0)
        examples += rows
    return {path: total / max(examples, 1) for path, total in totals.items()}


def head_ablation(model: Model, batches: Sequence[Batch], loss: Loss) -> dict[str, Tensor]:
    """Return A_h (H,): how much the loss grows when a head is removed, one at a time."""
    measured = lambda: sum(float(loss(model, batch)) for batch in batches)
    with eval_mode(model):
        whole = measured()
        found = {}
        for path, heads in count_heads(model).items():
            changes = []
            for head in range(heads):
                with without_heads(model, {path: [head]}):
                    changes.append(measured() - whole)
            found[path] = torch.tensor(changes)
    return found
