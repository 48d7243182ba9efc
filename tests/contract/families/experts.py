"""Mixtures of experts: every way to score, choose and weigh."""

from typing import Any

import torch
from common import SITE, Case, Twin, make
from families.plain import PLAIN, feed_forward_twin, gated
from torch import Tensor

from attentif.kernels.grouped import mixture_naive
from attentif.nn.mixers.experts import Experts, ExpertsConfig

SMALL = {"experts": 4, "hidden": 12}
VARIANTS: dict[str, dict[str, Any]] = {
    "mixtral": {},
    "switch": {"top_k": 1, "normalised": False, "activation": "relu", "bias": True},
    "biased-and-gated": {"top_k": 3, "bias": True, "router_bias": True, "activation": "geglu"},
    "sigmoid": {"scores": "sigmoid", "scale": 2.5},
    "sigmoid-as-it-is": {"scores": "sigmoid", "normalised": False},
    "shared": {"shared": 2, "activation": "gelu"},
    "shared-gate": {"shared": 3, "shared_gate": True},
    "weighs-inputs": {"scores": "sigmoid", "normalised": False, "weighs": "inputs", "shared": 1},
    "clamped": {"activation": "swiglu-clamped", "bias": True, "router_bias": True},
    "groups": {"experts": 6, "groups": 3, "top_groups": 2, "scores": "sigmoid", "balance": [{"kind": "bias"}]},
    "groups-by-their-best": {"experts": 6, "groups": 3, "top_groups": 2, "group_best": 1, "top_k": 3},
    "all-of-them": {"top_k": 4},
    "one": {"experts": 1, "top_k": 1},
}
CASES: dict[str, Case] = {f"experts-{name}": (make(ExpertsConfig, **SMALL | values), SITE) for name, values in VARIANTS.items()}


def experts_twin(mixer: Experts, x: Tensor, marks: Tensor | None = None) -> Tensor:
    config = mixer.config
    name = config.activation

    def through(layer: Any, row: Tensor, expert: int) -> Tensor:
        return layer.weight[expert] @ row + (0 if layer.bias is None else layer.bias[expert])

    def expert(row: Tensor, number: int) -> Tensor:
        up = through(mixer.up, row, number)
        inner = PLAIN[name](up) if mixer.gate is None else gated(name, through(mixer.gate, row, number), up)
        return through(mixer.out, inner, number)

    logits = mixer.router(x)
    scores = logits.softmax(-1) if config.scores == "softmax" else 1 / (1 + torch.exp(-logits))
    chosen = torch.tensor([_choice(config, row.tolist()) for row in scores])
    weights = scores.gather(1, chosen)
    if config.normalised:
        weights = weights / weights.sum(1, keepdim=True)
    if config.weighs == "inputs":
        rows = zip(x, chosen.tolist(), weights, strict=True)
        y = torch.stack([sum(expert(weight * row, number) for number, weight in zip(own, each, strict=True)) for row, own, each in rows])
    else:
        y = mixture_naive(x, chosen, config.scale * weights, expert)
    if mixer.shared is None:
        return y
    gate = 1.0 if mixer.shared_gate is None else torch.sigmoid(x @ mixer.shared_gate.weight.T)
    return y + gate * feed_forward_twin(mixer.shared, x)


def _choice(config: ExpertsConfig, scores: list[float]) -> list[int]:
    """The experts of one token, whose bias is still 0."""
    members = config.experts // config.groups
    groups = [list(range(first, first + members)) for first in range(0, config.experts, members)]
    worth = [sum(sorted((scores[i] for i in group), reverse=True)[: config.group_best]) for group in groups]
    best = sorted(range(config.groups), key=lambda g: -worth[g])[: config.top_groups]
    return sorted((i for g in best for i in groups[g]), key=lambda i: -scores[i])[: config.top_k]


TWINS: dict[str, Twin] = {"experts": experts_twin}
# a token's neighbours decide how many rows its expert multiplies at once, and products of other sizes may round otherwise
ROUNDED = {"experts"}
