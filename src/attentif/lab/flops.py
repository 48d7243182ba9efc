"""Floating-point operations of a model, counted by watching what is executed.

Every operation that torch dispatches while a real batch goes through the model is looked up in `operations.py`, which says what is counted
and by which formula; our kernels are operations of torch too. So the count is that of this computation on this device: padding, blocks that
are recomputed, experts that were chosen, and the form of attention that the kernels took are all in it.

For a dense transformer the forward pass comes out as 2 N + 2 L T D for each token, N being the weights of its matrices, L its layers, T the
length, D its width (Kaplan et al. 2020, table 1), and training as three times the products, and three and a half times attention, whose
scores are worked out twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attentif.lab.operations import FORMULAS, OperationCall
from attentif.models import Batch
from attentif.tasks.predictors import Trainable

KERNELS = "attentif::"
LossOf = Callable[[Trainable, Batch], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """Operations of one batch; a multiplication and an addition are two."""

    forward: int  # the model's forward pass, head included
    training: int  # forward, loss and backward
    tokens: int  # of the batch, padding not counted; those of source and target
    by_operation: Mapping[str, int] = field(default_factory=dict)  # of training, the largest first: {"aten::addmm": ...}

    @property
    def forward_per_token(self) -> float:
        return self.forward / max(self.tokens, 1)

    @property
    def training_per_token(self) -> float:
        return self.training / max(self.tokens, 1)


def count(model: Trainable, batch: Batch, loss: LossOf | None = None) -> Flops:
    """What one batch takes; `loss` is what is differentiated (by default the sum of the logits): `lambda m, b: task.step(m, b).total`.

    The model is left as it was: its weights get no gradients and the random numbers go on as if nothing had been computed.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    with torch.random.fork_rng(devices=_devices(model)), torch.enable_grad():
        with Counting() as forward:
            model(batch)
        with Counting() as training:
            total = model(batch)[0].sum() if loss is None else loss(model, batch)
            torch.autograd.grad(total, weights, allow_unused=True)
    tokens = batch.source.seq.tokens + (batch.target.seq.tokens if batch.target else 0)
    return Flops(forward=forward.total, training=training.total, tokens=tokens, by_operation=dict(training.found.most_common()))


class Counting(TorchDispatchMode):
    """What is executed inside is counted: `with Counting() as counted: ...; counted.total`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.found.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removesuffix("_")  # addmm_ adds up in place
        formula = FORMULAS.get(name)
        if formula is not None:
            self.found[name] += formula(OperationCall(func._schema, args, kwargs, result))
        elif name.startswith(KERNELS):
            raise NotImplementedError(f"{name} has no formula in attentif.lab.operations")
        return result


def _devices(model: Trainable) -> list[torch.device]:
    device = next(model.parameters()).device
    return [device] if device.type == "cuda" else []
