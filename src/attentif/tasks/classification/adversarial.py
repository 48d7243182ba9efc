"""Adversarial training on the vectors of tokens (Miyato, Dai & Goodfellow 2017, eq. 2 to 6).

    v̄ = (v - E[v]) / √Var[v]                       each component, over the tokens of the batch (so frequent words count more)
    g = ∇_s L(s),  s = [v̄_1 ... v̄_T]               of one example, all its places together
    r = ε · g / ‖g‖₂                               the worst step of length ε, to first order
    loss = (L(s) + L(s + r)) / 2                   r is held fixed in it

The paper normalises the table itself, so that a model cannot escape by making its vectors large. Here the model stays as it is and the
step is measured in the same units: with v = E[v] + √Var[v] ∘ v̄, the gradient for v̄ is √Var[v] ∘ ∇_v L, and moving v̄ by r moves v by
√Var[v] ∘ r. Both passes see the same dropout. Padding is left where it is.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import get_device_states, set_device_states

from attentif.models import Batch, Model
from attentif.nn.auxiliary import discard_auxiliary
from attentif.nn.seq import Seq
from attentif.tasks.narrow import token_embedding
from attentif.tasks.predictors import Predictor, first_network

LossOf = Callable[[Tensor], Tensor]  # logits to the sum of the examples' losses


def adversarial_loss(model: Predictor, batch: Batch, loss_of: LossOf, radius: float) -> tuple[Tensor, Tensor]:
    """Mean of the loss and of the loss at the worst perturbation within `radius`, summed over examples; and the clean logits."""
    table = vectors_of(first_network(model))
    random, devices = torch.get_rng_state(), get_device_states(batch.source.data)
    with _Moved(table) as first:
        logits, _ = model(batch)
    here = loss_of(logits)
    assert first.vectors is not None
    (slope,) = torch.autograd.grad(here, first.vectors, retain_graph=True)
    step = worst_step(first.vectors.detach(), slope, batch.source.seq, radius)
    torch.set_rng_state(random)
    set_device_states(*devices)
    with _Moved(table, step), discard_auxiliary():  # auxiliary losses count once
        there = loss_of(model(batch)[0])
    return (here + there) / 2, logits


def worst_step(vectors: Tensor, slope: Tensor, seq: Seq, radius: float) -> Tensor:
    """√Var[v] ∘ r, shaped as `vectors`: (B, T, D), or packed (N, D)."""
    spread = vectors[seq.valid].std(0, correction=0)
    g = (slope * spread).masked_fill(~seq.valid[..., None], 0)
    if seq.is_packed:
        squares = g.new_zeros(seq.batch).index_add(0, seq.row, g.square().sum(-1))
        length = squares.sqrt()[seq.row][:, None]
    else:
        length = g.square().sum((1, 2), keepdim=True).sqrt()
    return radius * spread * g / length.clamp(min=torch.finfo(g.dtype).tiny)


def vectors_of(model: Model) -> nn.Embedding:
    """The token embedding of the model."""
    return token_embedding(model).tokens


class _Moved:
    """Context manager that records the output of the embedding, and adds `step` to it if given."""

    def __init__(self, table: nn.Embedding, step: Tensor | None = None) -> None:
        self.table, self.step = table, step
        self.vectors: Tensor | None = None

    def __enter__(self) -> "_Moved":
        self.handle = self.table.register_forward_hook(self._hook)
        return self

    def _hook(self, module: nn.Module, given: object, output: Tensor) -> Tensor:
        self.vectors = output
        return output if self.step is None else output + self.step

    def __exit__(self, *problem: object) -> None:
        self.handle.remove()
