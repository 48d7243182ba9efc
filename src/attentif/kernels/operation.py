"""Registration of compiled loops as torch operations with gradients.

    @operation("scale", fake=lambda x, factor: torch.empty_like(x))
    def _scale(x: Tensor, factor: float) -> Tensor: ...

    differentiate(_scale, _scale_backward, save=lambda x, factor, y: (factor,))

torch then records them for autograd, and a compiled graph holds them as one node.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch._library.custom_ops import CustomOpDef


def operation(name: str, *, fake: Callable[..., Any]) -> "Callable[[Callable[..., Any]], CustomOpDef]":
    """Register a function as the torch operation `attentif::name`; `fake` returns empty outputs."""

    def register(function: Callable[..., Any]) -> "CustomOpDef":
        defined: CustomOpDef = torch.library.custom_op(f"attentif::{name}", function, mutates_args=())
        defined.register_fake(fake)
        return defined

    return register


def differentiate(forward: "CustomOpDef", backward: Callable[..., Any], *, save: Callable[..., tuple[Any, ...]], outputs: int = 1) -> None:
    """Register the gradient of an operation.

    `save(*inputs, *outputs)` gives what the backward pass reads, tensors or not. `backward(*saved, *gradients)` takes the gradients of the
    first `outputs` outputs (the others are there for the backward pass alone) and returns those of the first inputs. A gradient may be a
    function that computes it: it is called where it is needed.
    """

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        saved = save(*inputs, *results)
        ctx.set_materialize_grads(False)  # no zeros for outputs that only the backward pass reads
        ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in saved))
        ctx.others = [None if isinstance(value, Tensor) else value for value in saved]
        ctx.forms = [(result.shape, result.dtype, result.device) for result in results[:outputs]]

    def backpropagate(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = (other if tensor is None else tensor for tensor, other in zip(ctx.saved_tensors, ctx.others, strict=True))
        given = (
            torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient.contiguous()
            for gradient, (shape, dtype, device) in zip(gradients, ctx.forms, strict=False)
        )
        found = backward(*saved, *given)
        found = found if isinstance(found, tuple) else (found,)
        needed = ctx.needs_input_grad
        computed = [
            (gradient() if callable(gradient) else gradient) if need else None for gradient, need in zip(found, needed, strict=False)
        ]
        return *computed, *[None] * (len(needed) - len(computed))

    forward.register_autograd(backpropagate, setup_context=keep)


def empty_like(*tensors: Tensor) -> tuple[Tensor, ...]:
    """An empty tensor like each of these."""
    return tuple(torch.empty_like(tensor) for tensor in tensors)
