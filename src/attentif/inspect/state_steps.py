"""Mixers with a state instead of a softmax, step by step: a channel of a state space, a head of linear attention.

    state space         h_t = Ā_t ⊙ h_{t-1} + Δ_t u_t B_t,    y_t = C_t·h_t + D u_t,    Ā_t = exp(Δ_t A);     gated = y ⊙ silu(z)
    linear attention    S_t = S_{t-1} + φ(k_t) v_tᵀ,          z_t = z_{t-1} + φ(k_t),   mixed = φ(q_t)ᵀ S_t / (φ(q_t)ᵀ z_t + ε)

Projections, features and step sizes are those of the model's own forward pass; the recurrence is worked out again from them, token by
token, as the equations say it. Symbols are those of `nn/mixers/mamba.py`, `mamba2.py` and `linear.py`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attentif.errors import UsageError
from attentif.inspect.attention_steps import capture
from attentif.models import Batch, Model, eval_mode
from attentif.nn.block import Sublayer
from attentif.nn.feature_attention import FeatureAttention
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.past import require_past
from attentif.nn.tape import record, sublayer_path


@dataclass(frozen=True, slots=True)
class StateSpaceSteps:
    """One channel of a Mamba or Mamba-2 layer over one row, and what the whole layer does at one token."""

    channels: int
    head: int  # of the channel; of Mamba, whose channels have their own A, the channel itself
    before: Tensor  # (D,): the stream that enters the sublayer at the token
    normed: Tensor  # (D,): what the projections read
    u: Tensor  # (T,): the channel's input, after the convolution
    delta: Tensor  # (T,): step sizes
    A: Tensor  # (N,): rates of decay
    decay: Tensor  # (T, N): Ā, the share of the state that is kept
    B: Tensor  # (T, N): where the input is written
    C: Tensor  # (T, N): where the state is read
    state: Tensor  # (T, N): after each token
    skip: float  # D
    y: Tensor  # (T,)
    gate: Tensor  # (T,): silu(z)
    gated: Tensor  # (T,): y · silu(z)
    out: Tensor  # (D,): what the sublayer adds
    after: Tensor  # (D,): the stream that leaves it


@dataclass(frozen=True, slots=True)
class LinearAttentionSteps:
    """One query of one head of linear attention."""

    heads: int
    eps: float
    before: Tensor  # (D,)
    normed: Tensor  # (D,)
    q: Tensor  # (K,)
    k: Tensor  # (S, K)
    v: Tensor  # (S, K)
    q_features: Tensor  # (F,): φ(q)
    k_features: Tensor  # (S, F): φ(k)
    seen: Tensor  # (S,): bool, the keys in the sums
    sums: Tensor  # (F, K): S, the state that the query reads
    total: Tensor  # (F,): z
    denominator: Tensor  # (): φ(q)ᵀz + ε; (F,): z + ε, where each feature has its own
    weights: Tensor  # (S,): the query's row of the implied matrix
    mixed: Tensor  # (K,): read from the state
    joined: Tensor  # (H·K,)
    out: Tensor  # (D,)
    after: Tensor  # (D,)


def find_state_space(model: Model, path: str) -> tuple[Sublayer, Mamba | Mamba2]:
    """Return the sublayer at a path and its state space; UsageError if there is none."""
    sublayer, mixer = _find(model, path, (Mamba, Mamba2), "selective state space")
    return sublayer, mixer


def find_linear_attention(model: Model, path: str) -> tuple[Sublayer, FeatureAttention]:
    """Return the sublayer at a path and its linear attention; UsageError if there is none."""
    sublayer, mixer = _find(model, path, (FeatureAttention,), "linear attention")
    return sublayer, mixer


@torch.no_grad()
def state_space_steps(model: Model, batch: Batch, path: str, *, channel: int, query: int, row: int = 0) -> StateSpaceSteps:
    """Compute every step of one channel of the Mamba or Mamba-2 layer at `path`, over one row of a padded batch."""
    sublayer, mixer = find_state_space(model, path)
    if not 0 <= channel < mixer.inner:
        raise UsageError(f"{path} has channels 0 to {mixer.inner - 1}, not {channel}")
    with eval_mode(model), record(model) as tape, capture(sublayer, mixer, "gate") as kept:
        model.hidden(batch)
    own: Any = tape.records[path][-1]
    length = _check_query(own.seq, row, query, path)
    u, gate = own.u[row, :length, channel], torch.nn.functional.silu(kept["gate"][row, :length, channel])
    written, C = require_past(own.written)[row, :length], own.C[row, :length]
    if isinstance(mixer, Mamba):
        head, A, skip = channel, -torch.exp(mixer.A_log[channel]), mixer.D[channel]
        delta, B = written[:, channel], written[:, mixer.inner :]
    else:
        head, states = channel // mixer.config.head_width, mixer.config.state
        group = slice((start := head // (mixer.heads // mixer.config.groups) * states), start + states)
        A, skip = -torch.exp(mixer.A_log[head]).expand(states), mixer.D[head]
        delta, B, C = written[:, head], written[:, mixer.heads :][:, group], C[:, group]
    decay = torch.exp(delta[:, None] * A)
    state = _run_recurrence(decay, (delta * u)[:, None] * B)
    y = (C * state).sum(-1) + skip * u
    return StateSpaceSteps(
        channels=mixer.inner,
        head=head,
        before=kept["before"][row, query],
        normed=kept["normed"][row, query],
        u=u,
        delta=delta,
        A=A,
        decay=decay,
        B=B,
        C=C,
        state=state,
        skip=float(skip),
        y=y,
        gate=gate,
        gated=y * gate,
        out=kept["out"][row, query],
        after=kept["after"][row, query],
    )


@torch.no_grad()
def linear_attention_steps(model: Model, batch: Batch, path: str, *, head: int, query: int, row: int = 0) -> LinearAttentionSteps:
    """Compute every step of one query of one head of the linear attention or Performer at `path`."""
    sublayer, mixer = find_linear_attention(model, path)
    if not 0 <= head < mixer.heads:
        raise UsageError(f"{path} has {mixer.heads} heads, not {head + 1}")
    with eval_mode(model), record(model) as tape, capture(sublayer, mixer, "q", "k", "v") as kept:
        model.hidden(batch)
    own: Any = tape.records[path][-1]
    length = _check_query(own.seq, row, query, path)
    q, k, v = (kept[name][row, :length].unflatten(-1, (mixer.heads, -1))[:, head] for name in ("q", "k", "v"))
    q_features, k_features = own.q[row, head, query], require_past(own.k)[row, head, :length]
    seen = torch.arange(length, device=q.device) <= query if mixer.causal else torch.ones(length, dtype=torch.bool, device=q.device)
    sums, total = k_features[seen].mT @ v[seen], k_features[seen].sum(0)
    eps = mixer.eps(q.dtype)
    if mixer.by_feature:
        denominator = total + eps
        mixed = (q_features / denominator) @ sums
    else:
        denominator = q_features @ total + eps
        mixed = (q_features @ sums) / denominator
    return LinearAttentionSteps(
        heads=mixer.heads,
        eps=eps,
        before=kept["before"][row, query],
        normed=kept["normed"][row, query],
        q=q[query],
        k=k,
        v=v,
        q_features=q_features,
        k_features=k_features,
        seen=seen,
        sums=sums,
        total=total,
        denominator=denominator,
        weights=tape.maps(path, head=head)[row, 0, query, :length],
        mixed=mixed,
        joined=kept["joined"][row, query],
        out=kept["out"][row, query],
        after=kept["after"][row, query],
    )


def _run_recurrence(decay: Tensor, written: Tensor) -> Tensor:
    """h_t = decay_t ⊙ h_{t-1} + written_t, from zero: (T, N)."""
    h, states = torch.zeros_like(written[0]), []
    for kept, new in zip(decay, written, strict=True):
        h = kept * h + new
        states.append(h)
    return torch.stack(states)


def _find(model: Model, path: str, kinds: tuple[type, ...], what: str) -> tuple[Sublayer, Any]:
    sublayers = {sublayer_path(name): module for name, module in model.named_modules() if isinstance(module, Sublayer)}
    found = {own: sublayer for own, sublayer in sublayers.items() if isinstance(sublayer.mixer, kinds)}
    if path not in found:
        raise UsageError(f"there is no {what} at {path!r}; there is: {', '.join(found) or 'none'}")
    return found[path], found[path].mixer


def _check_query(seq: Any, row: int, query: int, path: str) -> int:
    """Return how many tokens the row has; UsageError if the query is not among them."""
    length = int(seq.lengths[row])
    if not 0 <= query < length:
        raise UsageError(f"{path} reads {length} tokens, not {query + 1}")
    return length
