"""Attention over a window and over the nearest of a memory."""

from dataclasses import replace

import torch
from common import HEADS, SITE, Case, Twin, make
from torch import Tensor

from attentif.nn.bias import ALiBiConfig, RelativeConfig
from attentif.nn.mixers.memory import Memory, MemoryConfig

RELATIVE = RelativeConfig(heads=HEADS, buckets=8, max_distance=20, bidirectional=False)
CASES: dict[str, Case] = {
    "memory": (make(MemoryConfig, heads=HEADS, window=4, size=9, top=3), SITE),
    "memory-large": (make(MemoryConfig, heads=2, window=5, size=100, top=7, head_width=6, bias=False, scale=0.3), SITE),
    "memory-one-neighbour": (make(MemoryConfig, heads=HEADS, window=1, size=3, top=1, qk_norm={"kind": "rms"}), SITE),
    "memory-takes-all": (make(MemoryConfig, heads=HEADS, window=3, size=6, top=50), replace(SITE, bias=ALiBiConfig(heads=HEADS).build())),
    "memory-relative": (make(MemoryConfig, heads=HEADS, window=6, size=8, top=2), replace(SITE, bias=RELATIVE.build().double())),
}


def memory_maps(mixer: Memory, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """The weights (heads, T, T), one query after the other; no gradient reaches the memory's keys."""
    config, T, K = mixer.config, len(x), mixer.head_width
    q, k = (project(x).view(T, -1, K) for project in (mixer.q, mixer.k))
    if mixer.q_norm is not None and mixer.k_norm is not None:
        q, k = mixer.q_norm(q), mixer.k_norm(k)
    places = torch.arange(T)
    bias = mixer.position_bias(places, places) if mixer.position_bias is not None else torch.zeros(mixer.heads, T, T)
    maps = []
    for h in range(mixer.heads):
        rows = []
        for t in range(T):
            row = torch.zeros(T, dtype=x.dtype)
            near = range(max(0, t - config.window + 1), t + 1)
            local = torch.stack([mixer.scale * q[t, h] @ k[j, h] + bias[h, t, j] for j in near]).softmax(0)
            far = range(max(0, t - config.window - config.size + 1), t - config.window + 1)
            products = (k[:, h] @ q[t, h]).detach()
            best = sorted(far, key=lambda j: -float(products[j]))[: config.top]
            gate = torch.sigmoid(mixer.gate[h]) if best else torch.zeros((), dtype=x.dtype)
            row = row.index_put((torch.tensor(near),), (1 - gate) * local)
            if best:
                recalled = torch.stack([mixer.scale * q[t, h] @ k[j, h].detach() for j in best]).softmax(0)
                row = row.index_put((torch.tensor(best),), gate * recalled)
            rows.append(row)
        maps.append(torch.stack(rows))
    return torch.stack(maps)


def memory_twin(mixer: Memory, x: Tensor, marks: Tensor | None = None) -> Tensor:
    T = len(x)
    v = mixer.v(x).view(T, -1, mixer.head_width)
    near = torch.tensor([[0 <= t - j < mixer.config.window for j in range(T)] for t in range(T)])
    weights = memory_maps(mixer, x)
    heads = [(w * near) @ v[:, h] + (w * ~near) @ v[:, h].detach() for h, w in enumerate(weights)]
    return mixer.out(torch.cat(heads, -1))


TWINS: dict[str, Twin] = {"memory": memory_twin}
MAPS: dict[str, Twin] = {"memory": memory_maps}
