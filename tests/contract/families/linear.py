"""Attention's cheaper algebraic forms: sums of features, random or not, low rank over time or over width, decays."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from common import HEADS, SITE, Case, Twin, make
from families.attention import turned
from torch import Tensor

from attentif.nn.mixers.gated_linear import GatedLinear, GatedLinearConfig
from attentif.nn.mixers.latent import Latent, LatentConfig
from attentif.nn.mixers.linear import LinearAttention, LinearAttentionConfig
from attentif.nn.mixers.linformer import Linformer, LinformerConfig
from attentif.nn.mixers.performer import Performer, PerformerConfig


def _cases() -> Iterator[tuple[str, Any]]:
    for causal in (True, False):
        way = {"heads": HEADS, "causal": causal}
        name = "causal" if causal else "bidirectional"
        for features in ("elu", "relu", "squared-relu", "softmax"):
            yield f"linear-{features}-{name}", make(LinearAttentionConfig, features=features, **way)
        for features in ("elu", "softmax"):
            yield f"linear-by-feature-{features}-{name}", make(LinearAttentionConfig, features=features, normalise="feature", **way)
        yield f"performer-{name}", make(PerformerConfig, **way)
        yield f"performer-relu-{name}", make(PerformerConfig, kernel="relu", features=10, seed=3, **way)
        yield f"performer-no-eps-{name}", make(PerformerConfig, eps=0.0, features=7, **way)
        yield f"latent-{name}", make(LatentConfig, **way)
        yield f"latent-query-rank-{name}", make(LatentConfig, q_rank=6, kv_rank=5, bias=True, out_bias=True, **way)
    yield "linear-head-width", make(LinearAttentionConfig, heads=3, head_width=6, causal=True, bias=False, out_bias=False, eps=0.1)
    yield "latent-wide-values", make(LatentConfig, heads=3, head_width=4, value_width=9, rotary_width=2, scale=0.6)
    yield (
        "latent-halves-scaled",
        make(LatentConfig, heads=2, rotary_width=6, rotary={"scaling": {"kind": "yarn", "factor": 4.0, "trained": 8}}),
    )
    for share in ("none", "heads", "key-value"):
        yield f"linformer-{share}", make(LinformerConfig, heads=HEADS, max_len=40, rank=6, share=share)
    yield "linformer-head-width", make(LinformerConfig, heads=3, head_width=5, max_len=33, rank=40, bias=False, out_bias=False)
    yield "gated-linear", make(GatedLinearConfig)
    yield "gated-linear-fast", make(GatedLinearConfig, slowness=0.3, heads=2, rank=3)
    yield "gated-linear-no-gate", make(GatedLinearConfig, heads=3, key_width=5, value_width=7, gate=False, norm={"kind": "layer"})


CASES: dict[str, Case] = {name: (config, SITE) for name, config in _cases()}


# ------------------------------------------------------------------------------------------------------- sums of features


def _heads(mixer: Any, x: Tensor) -> list[list[Tensor]]:
    """Queries, keys and values (T, K) of each head."""
    K = mixer.head_width
    return [list(project(x).view(len(x), -1, K).unbind(1)) for project in (mixer.q, mixer.k, mixer.v)]


def _sees(mixer: Any, T: int) -> Tensor:
    every = torch.ones(T, T, dtype=torch.float64)
    return every.tril() if mixer.config.causal else every


def _summed(mixer: Any, x: Tensor, weights: Tensor) -> Tensor:
    return mixer.out(torch.cat([w @ v for w, v in zip(weights, _heads(mixer, x)[2], strict=True)], -1))


def linear_maps(mixer: LinearAttention, x: Tensor, marks: Tensor | None = None) -> Tensor:
    config, sees, maps = mixer.config, _sees(mixer, len(x)), []
    for q, k in zip(*_heads(mixer, x)[:2], strict=True):
        match config.features:
            case "elu":
                q, k = (torch.where(t > 0, t + 1, t.exp()) for t in (q, k))
            case "relu":
                q, k = (t.clamp(min=0) for t in (q, k))
            case "squared-relu":
                q, k = (t.clamp(min=0) ** 2 for t in (q, k))
            case "softmax":
                largest = 0.0 if config.causal else k.detach().amax(0) if config.normalise == "feature" else k.detach().max()
                q, k = q.exp() / q.exp().sum(-1, keepdim=True), (k - largest).exp()
        if config.normalise == "query":
            weights = (q @ k.T) * sees
            maps.append(weights / (weights.sum(-1, keepdim=True) + config.eps))
        else:  # every feature of the keys sums to one over what the query sees
            shares = [k * row[:, None] / ((k * row[:, None]).sum(0) + config.eps) for row in sees]
            maps.append(torch.stack([share @ query for share, query in zip(shares, q, strict=True)]))
    return torch.stack(maps)


def linear_twin(mixer: LinearAttention, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return _summed(mixer, x, linear_maps(mixer, x))


def performer_maps(mixer: Performer, x: Tensor, marks: Tensor | None = None) -> Tensor:
    config, sees, w, maps = mixer.config, _sees(mixer, len(x)), mixer.directions, []
    for q, k in zip(*_heads(mixer, x)[:2], strict=True):
        q, k = q / mixer.head_width**0.25, k / mixer.head_width**0.25
        dots = [torch.stack([torch.stack([(t * direction).sum() for direction in w]) for t in vectors]) for vectors in (q, k)]
        if config.kernel == "relu":
            features = [d.clamp(min=0) + config.eps for d in dots]
        else:
            shifts = [dots[0].detach().amax(-1, keepdim=True), torch.zeros(()) if config.causal else dots[1].detach().max()]
            features = [
                (d - (t * t).sum(-1, keepdim=True) / 2 - c).exp() + config.eps for d, t, c in zip(dots, (q, k), shifts, strict=True)
            ]
        weights = (features[0] @ features[1].T) * sees
        maps.append(weights / weights.sum(-1, keepdim=True))
    return torch.stack(maps)


def performer_twin(mixer: Performer, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return _summed(mixer, x, performer_maps(mixer, x))


# ------------------------------------------------------------------------------------------------------- latent attention


def latent_heads(mixer: Latent, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The weights (T, T) and the values (T, V) of each head, everything expanded."""
    T, K, P = len(x), mixer.K, mixer.P
    below = mixer.q_norm(mixer.q_down(x)) if mixer.q_down is not None else x
    q = mixer.q(below).view(T, mixer.heads, K + P)
    both = mixer.kv_down(x)
    c, key = mixer.kv_norm(both[:, : mixer.rank]), turned(mixer.rotary, both[:, None, mixer.rank :])[:, 0]
    places = turned(mixer.rotary, q[..., K:])
    result = []
    for h in range(mixer.heads):
        k = c @ mixer.k.weight[h * K : (h + 1) * K].T
        v = c @ mixer.v.weight[h * mixer.V : (h + 1) * mixer.V].T
        scores = (q[:, h, :K] @ k.T + places[:, h] @ key.T) * (mixer.config.scale or 1 / math.sqrt(K + P))
        result.append((scores.masked_fill(_sees(mixer, T) == 0, -math.inf).softmax(-1), v))
    return result


def latent_twin(mixer: Latent, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return mixer.out(torch.cat([weights @ v for weights, v in latent_heads(mixer, x)], -1))


def latent_maps(mixer: Latent, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return torch.stack([weights for weights, _ in latent_heads(mixer, x)])


# ------------------------------------------------------------------------------------------------------------- linformer


def linformer_maps(mixer: Linformer, x: Tensor, marks: Tensor | None = None) -> Tensor:
    T, maps = len(x), []
    values = mixer.over_keys if mixer.over_values is None else mixer.over_values
    for h, (q, k) in enumerate(zip(*_heads(mixer, x)[:2], strict=True)):
        own = h if mixer.config.share == "none" else 0
        summaries = torch.stack([(k * mixer.over_keys[own, :T, r : r + 1]).sum(0) for r in range(mixer.config.rank)])
        weights = (q @ summaries.T / math.sqrt(mixer.head_width)).softmax(-1)
        maps.append(torch.stack([weights @ values[own, t] for t in range(T)], -1))
    return torch.stack(maps)


def linformer_twin(mixer: Linformer, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return _summed(mixer, x, linformer_maps(mixer, x))


# ---------------------------------------------------------------------------------------------------- gated linear attention


def _gated_inputs(mixer: GatedLinear, x: Tensor) -> list[Tensor]:
    """Queries, keys and decays (T, H, K), values (T, H, V)."""
    H = mixer.heads
    decay = torch.sigmoid(mixer.decay_up(mixer.decay_down(x))) ** (1 / mixer.config.slowness)
    q, k, decay = (t.view(len(x), H, mixer.K) for t in (mixer.q(x), mixer.k(x), decay))
    return [q / math.sqrt(mixer.K), k, decay, mixer.v(x).view(len(x), H, mixer.V)]


def gated_linear_twin(mixer: GatedLinear, x: Tensor, marks: Tensor | None = None) -> Tensor:
    S, steps = torch.zeros(mixer.heads, mixer.K, mixer.V, dtype=x.dtype), []
    for q, k, decay, v in zip(*_gated_inputs(mixer, x), strict=True):
        S = decay[:, :, None] * S + k[:, :, None] * v[:, None, :]
        steps.append(torch.stack([q_h @ S_h for q_h, S_h in zip(q, S, strict=True)]))
    o = mixer.norm(torch.stack(steps)).flatten(1)
    return mixer.out(o if mixer.gate is None else o * F.silu(mixer.gate(x)))


def gated_linear_maps(mixer: GatedLinear, x: Tensor, marks: Tensor | None = None) -> Tensor:
    q, k, decay, _ = _gated_inputs(mixer, x)
    T = len(x)
    weights = torch.zeros(mixer.heads, T, T, dtype=x.dtype)
    for t in range(T):
        for s in range(t + 1):
            weights[:, t, s] = (q[t] * k[s] * decay[s + 1 : t + 1].prod(0)).sum(-1)
    return weights


TWINS: dict[str, Twin] = {
    "linear": linear_twin,
    "performer": performer_twin,
    "latent": latent_twin,
    "linformer": linformer_twin,
    "gated-linear": gated_linear_twin,
}
MAPS: dict[str, Twin] = {
    "linear": linear_maps,
    "performer": performer_maps,
    "latent": latent_maps,
    "linformer": linformer_maps,
    "gated-linear": gated_linear_maps,
}
