"""Gradients by layer and by distance.

‖∂y_T / ∂x_t‖_F² = Σ_c ‖∂y_T[c] / ∂x_t‖²          c over the D components of the last vector: exact, D backward passes
                 ≈ mean over probes of ‖vᵀ ∂y_T / ∂x_t‖²,   v ~ N(0, I)      unbiased (Hutchinson 1990), a pass for each probe

x_t     the embedding at position t
y_T     its output at the last position of the row
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attentif.errors import UsageError
from attentif.inspect.activations import capture_flows
from attentif.models import Batch, Model, eval_mode
from attentif.nn.block import Sublayer

Loss = Callable[[Model, Batch], Tensor]  # a scalar: `lambda model, batch: task.step(model, batch).total`


def distance_norms(
    read: Callable[[Tensor], Tensor], x: Tensor, lengths: Sequence[int], *, probes: int | None = None, seed: int = 0
) -> Tensor:
    """(B, T): entry d is ‖∂y_T / ∂x_{T−d}‖ of each row of x (B, T, D), T its last position; or nan."""
    x = x.detach().requires_grad_()
    last = torch.as_tensor(lengths, device=x.device) - 1
    with torch.enable_grad():
        ends = read(x)[torch.arange(len(x), device=x.device), last]  # (B, D)
    squares = x.new_zeros(x.shape[:2])
    directions = torch.eye(ends.shape[1], device=x.device, dtype=x.dtype).unsqueeze(1).expand(-1, len(x), -1)
    if probes is not None:
        generator = torch.Generator().manual_seed(seed)
        directions = torch.randn(probes, *ends.shape, generator=generator).to(x) / probes**0.5
    for direction in directions:
        (gradient,) = torch.autograd.grad(ends, x, direction, retain_graph=True)
        squares += gradient.square().sum(-1)
    back = last[:, None] - torch.arange(x.shape[1], device=x.device)
    norms = squares.sqrt().gather(1, back.clamp(min=0))
    return norms.masked_fill(back < 0, torch.nan)


def gradient_by_distance(model: Model, batch: Batch, *, probes: int | None = None, seed: int = 0) -> Tensor:
    """(B, T): norms of the gradient of the last output by distance of the embedding."""
    source = batch.source if model.target is None else batch.target
    if source is None or source.seq.is_packed or model.config.bridge or model.config.reverse:
        raise UsageError("gradients by distance need padded rows and a model without a bridge or reversed encoder")
    with eval_mode(model):
        x, seq = (model.target or model.frontend)(source)
        if model.encoder is None or model.decoder is None:
            stack = model.decoder or model.encoder
            assert stack is not None
            read = lambda x: stack(x, seq)
        else:
            memory, decoder = model.encode(batch.source), model.decoder
            read = lambda x: decoder(x, seq, memory.x, memory.seq)
        return distance_norms(read, x, seq.lengths.tolist(), probes=probes, seed=seed)


def gradient_norms(model: Model, total: Tensor) -> dict[str, float]:
    """Return the norm of a loss's gradient for the weights of each sublayer and other part."""
    named = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True, retain_graph=True)
    paths = [name for name, module in model.named_modules() if isinstance(module, Sublayer)]
    squares: dict[str, float] = {}
    for name, gradient in zip(named, gradients, strict=True):
        path = next((path for path in paths if name.startswith(f"{path}.")), _part(name))
        squares[path] = squares.get(path, 0.0) + (0.0 if gradient is None else float(gradient.float().square().sum()))
    return {path: square**0.5 for path, square in squares.items()}


def _part(name: str) -> str:
    """Map "encoder.norm.weight" to "encoder.norm", "head.out.bias" to "head"."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] in ("encoder", "decoder") else parts[0]


def stream_gradients(model: Model, batch: Batch, loss: Loss) -> dict[str, float]:
    """Return the norm of the loss's gradient for the residual stream after each sublayer."""
    with eval_mode(model), torch.enable_grad(), capture_flows(model) as kept:
        total = loss(model, batch)
        flows = dict(kept)
    gradients = torch.autograd.grad(total, [flow.stream for flow in flows.values()], allow_unused=True)
    norm = lambda gradient, seq: 0.0 if gradient is None else float(torch.linalg.vector_norm(gradient[seq.valid].float()))
    return {path: norm(gradient, flow.seq) for (path, flow), gradient in zip(flows.items(), gradients, strict=True)}
