"""The logit lens: the model's prediction after each sublayer (nostalgebraist 2020).

z_l = head(n(x_l))          x_l the stream after sublayer l, n the stack's last norm
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.inspect.activations import activations
from attentif.models import Batch, Model, eval_mode


@dataclass(frozen=True, slots=True)
class LogitLens:
    """Logits read from the stream: (T, V) of a language head, (1, C) of a classifier."""

    paths: list[str]  # "embedding", then every sublayer of the last stack
    logits: Tensor  # (sublayers + 1, T, V), or (sublayers + 1, 1, C)


def logit_lens(model: Model, batch: Batch, row: int = 0) -> LogitLens:
    """Return logits after every sublayer of the last stack, for one row of a padded batch."""
    stack = model.decoder or model.encoder
    assert stack is not None
    name = "decoder" if model.decoder is not None else "encoder"
    last = batch.source if model.target is None else batch.target
    assert last is not None
    with eval_mode(model):
        x, seq = (model.target or model.frontend)(last)
        flows = {path: flow for path, flow in activations(model, batch).items() if path.startswith(f"{name}.")}
        streams = [x, *(flow.stream for flow in flows.values())]
        found = [model.head(stack.finish(stream, seq), seq)[row] for stream in streams]
    logits = torch.stack([z if z.dim() == 2 else z[None] for z in found])
    return LogitLens(["embedding", *flows], logits)
