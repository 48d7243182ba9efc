"""Contents and distances scored apart, pair by pair."""

import math
from dataclasses import replace
from typing import Any

import torch
from common import HEADS, SITE, WIDTH, Case, Twin
from torch import Tensor

from attentif.nn.bias import DistancesConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers.disentangled import Disentangled, DisentangledConfig
from attentif.nn.norm import LayerNormConfig


def site(**values: Any) -> Site:
    torch.manual_seed(0)
    return replace(SITE, bias=DistancesConfig.model_validate({"heads": HEADS, "width": WIDTH} | values).build().double())


CASES: dict[str, Case] = {
    "disentangled": (DisentangledConfig(heads=HEADS), site(span=6)),
    "disentangled-buckets": (DisentangledConfig(heads=HEADS), site(span=8, reach=20, norm=LayerNormConfig())),
    "disentangled-apart": (DisentangledConfig(heads=HEADS, shared=False, head_width=6), site(span=40)),
    "disentangled-one-term": (DisentangledConfig(heads=HEADS, terms=("position-to-content",)), site(span=5)),
}


def distance(config: DistancesConfig, offset: int) -> int:
    """The row of one distance."""
    if config.reach is not None and abs(offset) > (exact := config.span // 2):
        ratio = math.log(abs(offset) / exact) / math.log((config.reach - 1) / exact)
        offset = int(math.copysign(math.ceil(round(ratio * (exact - 1), 6)) + exact, offset))
    return min(max(offset + config.span, 0), 2 * config.span - 1)


def disentangled_weights(mixer: Disentangled, x: Tensor) -> Tensor:
    """(H, T, T)"""
    T, K, terms = len(x), mixer.head_width, mixer.config.terms
    vectors = mixer.positions.vectors()
    r = (mixer.distance_key or mixer.k)(vectors).view(-1, mixer.heads, K)
    s = (mixer.distance_query or mixer.q)(vectors).view(-1, mixer.heads, K)
    q, k = (project(x).view(T, mixer.heads, K) for project in (mixer.q, mixer.k))
    scores = torch.empty(mixer.heads, T, T, dtype=x.dtype)
    for h in range(mixer.heads):
        for i in range(T):
            d = [distance(mixer.positions.config, i - j) for j in range(T)]
            scores[h, i] = k[:, h] @ q[i, h]
            scores[h, i] += r[d, h] @ q[i, h] if "content-to-position" in terms else 0
            scores[h, i] += (s[d, h] * k[:, h]).sum(-1) if "position-to-content" in terms else 0
    return (scores / math.sqrt(K * (1 + len(terms)))).softmax(-1)


def disentangled_twin(mixer: Disentangled, x: Tensor, marks: Tensor | None = None) -> Tensor:
    v = mixer.v(x).view(len(x), mixer.heads, mixer.head_width)
    return mixer.out(torch.einsum("hij,jhk->ihk", disentangled_weights(mixer, x), v).flatten(1))


TWINS: dict[str, Twin] = {"disentangled": disentangled_twin}
MAPS: dict[str, Twin] = {"disentangled": lambda mixer, x, marks=None: disentangled_weights(mixer, x)}
