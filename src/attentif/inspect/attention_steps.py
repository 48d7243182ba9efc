"""One query of one attention head, step by step.

    q = W_q n(x_t)      k_s = W_k n(x_s)      v_s = W_v n(x_s)
    dots_s = q · k_s    scores_s = scale · dots_s + bias_s     weights = softmax over what the mask allows
    mixed = Σ_s weights_s v_s        joined = [mixed of every head]        out = W_o joined        after = x_t + out

Numbers are those of the model's own forward pass: `weights` comes from the tape, `joined` is what the output projection read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentif.errors import UsageError
from attentif.models import Batch, Model, eval_mode
from attentif.nn.block import Sublayer
from attentif.nn.mixers.attention import Attention
from attentif.nn.mixers.cross import CrossAttention
from attentif.nn.tape import record, sublayer_path


@dataclass(frozen=True, slots=True)
class AttentionSteps:
    """Intermediate results of one row, one head and one query."""

    heads: int
    scale: float
    before: Tensor  # (D,): the stream that enters the sublayer at the query's place
    normed: Tensor  # (D,): what the projections read
    q: Tensor  # (K,): after rotation
    k: Tensor  # (S, K): after rotation
    v: Tensor  # (S, K)
    dots: Tensor  # (S,)
    scores: Tensor  # (S,): scaled, with the bias of positions and the cap
    allowed: Tensor  # (S,): bool
    weights: Tensor  # (S,)
    mixed: Tensor  # (K,)
    joined: Tensor  # (H·K,): all heads side by side
    out: Tensor  # (D,): what the sublayer adds
    after: Tensor  # (D,): the stream that leaves it


def attention_steps(model: Model, batch: Batch, path: str, *, head: int, query: int, row: int = 0) -> AttentionSteps:
    """Compute every step of one query of one head at `path`, such as "encoder.blocks.0.attn"."""
    sublayer, mixer = find_attention(model, path)
    if not 0 <= head < mixer.heads:
        raise UsageError(f"{path} has {mixer.heads} heads, not {head + 1}")
    with eval_mode(model), record(model) as tape, capture(sublayer, mixer, "v") as kept:
        model.hidden(batch)
    kept_record: Any = tape.records[path][-1]
    weights = tape.maps(path, head=head)[row, 0]
    if not 0 <= query < len(weights):
        raise UsageError(f"{path} reads {len(weights)} tokens, not {query + 1}")
    groups = getattr(mixer, "groups", mixer.heads)
    own = head * groups // mixer.heads
    values = kept["v"][row].unflatten(-1, (groups, -1))[:, own]
    q, k = kept_record.q[row, head], kept_record.k[row, own]
    scores = mixer.scale * (q @ k.mT)
    if isinstance(mixer, Attention):
        biased, bias = mixer.compute_bias(kept_record.q, kept_record.seq, kept_record.k_pos, kept_record.k)
        scores = mixer.scale * (biased[row, head] @ k.mT)
        if bias is not None:
            scores = scores + bias.expand(kept_record.q.shape[0], mixer.heads, -1, -1)[row, head]
        if mixer.config.softcap is not None:
            scores = mixer.config.softcap * torch.tanh(scores / mixer.config.softcap)
    width = weights.shape[1]
    return AttentionSteps(
        heads=mixer.heads,
        scale=mixer.scale,
        before=kept["before"][row, query],
        normed=kept["normed"][row, query],
        q=q[query],
        k=k[:width],
        v=values[:width],
        dots=(q @ k.mT)[query, :width],
        scores=scores[query, :width],
        allowed=_key_mask(mixer, kept_record, row, query, head, width),
        weights=weights[query],
        mixed=weights[query] @ values[:width],
        joined=kept["joined"][row, query],
        out=kept["out"][row, query],
        after=kept["after"][row, query],
    )


def find_attention(model: Model, path: str) -> tuple[Sublayer, Attention | CrossAttention]:
    """Return the sublayer at a path and its attention; UsageError if there is none."""
    known = {name: module for name, module in model.named_modules() if isinstance(module, Sublayer)}
    found = {sublayer_path(name): (module, module.mixer) for name, module in known.items()}
    sublayer, mixer = found.get(path, (None, None))
    if sublayer is None or not isinstance(mixer, Attention | CrossAttention):
        names = [name for name, (_, mixer) in found.items() if isinstance(mixer, Attention | CrossAttention)]
        raise UsageError(f"there is no softmax attention at {path!r}; there is: {', '.join(names) or 'none'}")
    return sublayer, mixer


@contextmanager
def capture(sublayer: Sublayer, mixer: nn.Module, *projections: str) -> Iterator[dict[str, Tensor]]:
    """While open, capture inputs and outputs of a sublayer, its norm, its output map, and outputs of the named projections."""
    kept: dict[str, Tensor] = {}

    def ends(entering: str, leaving: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            kept[entering], kept[leaving] = inputs[0].detach(), output.detach()

        return hook

    hooks = [
        sublayer.register_forward_hook(ends("before", "after")),
        sublayer.norm_in.register_forward_hook(ends("_", "normed")),
        *(mixer.get_submodule(name).register_forward_hook(ends("_", name)) for name in projections),
        mixer.get_submodule("out").register_forward_hook(ends("joined", "out")),
    ]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def _key_mask(mixer: Attention | CrossAttention, kept: Any, row: int, query: int, head: int, width: int) -> Tensor:
    if isinstance(mixer, CrossAttention):
        return torch.ones(width, dtype=torch.bool) if kept.valid is None else kept.valid[row].bool()
    mask = mixer.build_mask(kept.seq, kept.k_pos, kept.k.shape[2])
    if mask is None:
        return torch.ones(width, dtype=torch.bool)
    return mask.expand(len(kept.q), mixer.heads, kept.q.shape[2], -1)[row, head, query, :width]
