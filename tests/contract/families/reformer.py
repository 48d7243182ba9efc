"""Reformer's attention: by hashes in several rounds, and inside chunks of neighbours."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from common import HEADS, SITE, Case, Twin, make
from torch import Tensor

from attentif.kernels.chunked import Chunks
from attentif.nn.mixer import Site
from attentif.nn.mixers.reformer import Chunked, ChunkedConfig, Reformer, ReformerConfig


def _cases() -> Iterator[tuple[str, Case]]:
    for causal in (True, False):
        way = "causal" if causal else "bidirectional"
        common = {"heads": HEADS, "causal": causal}
        yield f"reformer-{way}", (make(ReformerConfig, **common, chunk=5, rounds=3), SITE)
        yield f"reformer-one-round-{way}", (make(ReformerConfig, **common, chunk=4, rounds=1, scale=0.5, eps=0.1), SITE)
        yield f"reformer-factors-{way}", (make(ReformerConfig, **common, chunk=3, rounds=2, buckets=[2, 4], seed=5), SITE)
        yield (
            f"reformer-around-{way}",
            (make(ReformerConfig, **common, chunk=4, before=2, after=int(not causal), bias=not causal, out_bias=True), SITE),
        )
        yield f"chunked-{way}", (make(ChunkedConfig, **common, chunk=5), SITE)
        yield (
            f"chunked-around-{way}",
            (make(ChunkedConfig, **common, chunk=4, before=2, after=int(not causal), bias=True, out_bias=True), SITE),
        )
    yield "reformer-head-width", (make(ReformerConfig, heads=3, head_width=6, causal=True, chunk=8), SITE)
    yield "reformer-many-buckets", (make(ReformerConfig, heads=2, head_width=4, chunk=1, before=3), SITE)  # more than 2 a chunk: factors
    yield "chunked-alone", (make(ChunkedConfig, heads=3, head_width=6, causal=True, chunk=6, before=0), _narrow())


def _narrow() -> Site:
    return replace(SITE, layer=1, layers=2)


CASES: dict[str, Case] = dict(_cases())


def reformer_order(mixer: Reformer, k: Tensor) -> list[list[list[int]]]:
    """Of each head and round, the tokens by bucket, then place."""
    config, (T, H, K) = mixer.config, k.shape
    factors = config.buckets
    if not factors:
        power = 1
        while 2 ** (power + 1) <= 2 * (T // config.chunk):
            power += 1
        factors = (2**power,) if 2**power <= 2 * config.chunk else (2 ** (power // 2), 2 ** (power - power // 2))
    generator = torch.Generator().manual_seed(config.seed)
    rotations = torch.randn(H, K, config.rounds, sum(factors) // 2, dtype=torch.float64, generator=generator)
    orders = []
    for h in range(H):
        orders.append([])
        for r in range(config.rounds):
            turned = k[:, h] @ rotations[h, :, r]
            keys = [0] * T
            for part, factor in reversed(list(zip(turned.split([f // 2 for f in factors], 1), factors, strict=True))):
                keys = [key * factor + int(torch.cat([x, -x]).argmax()) for key, x in zip(keys, part, strict=True)]
            orders[-1].append(sorted(range(T), key=lambda t: (keys[t], t)))
    return orders


def sees(orders: list[list[int]], how: Chunks, i: int) -> list[int]:
    """The keys that token i looks at, once for each time that a round brings them near."""
    chunks = [order[at : at + how.size] for order in orders for at in range(0, len(order), how.size)]
    seen = []
    for n, chunk in enumerate(chunks):
        if i in chunk:
            near = {(n + d) % len(chunks) for d in range(-how.before, how.after + 1)}
            seen += [j for other in sorted(near) for j in chunks[other]]
    seen = [j for j in seen if j <= i or not how.causal]
    return seen if how.own else [j for j in seen if j != i] or [i]


def weights(mixer: Reformer | Chunked, q: Tensor, k: Tensor, orders: list[list[list[int]]]) -> Tensor:
    """(H, T, T)"""
    T, H, _ = q.shape
    heads = []
    for h in range(H):
        lines = []
        for i in range(T):
            seen = sees(orders[h], mixer.how, i)
            p = torch.stack([q[i, h] @ k[j, h] for j in seen]).softmax(0)
            lines.append(torch.zeros(T, dtype=q.dtype).index_add(0, torch.tensor(seen), p))
        heads.append(torch.stack(lines))
    return torch.stack(heads)


def reformer_maps(mixer: Reformer, x: Tensor, marks: Tensor | None = None) -> Tensor:
    q = mixer.qk(x).view(len(x), mixer.heads, -1)
    mean = q.pow(2).mean(-1, keepdim=True)
    k = mixer.config.scale * q / (mean + mixer.config.eps).sqrt() / q.shape[-1] ** 0.5
    return weights(mixer, q, k, reformer_order(mixer, k.detach()))


def chunked_maps(mixer: Chunked, x: Tensor, marks: Tensor | None = None) -> Tensor:
    q, k = (project(x).view(len(x), mixer.heads, -1) for project in (mixer.q, mixer.k))
    return weights(mixer, q / q.shape[-1] ** 0.5, k, [[list(range(len(x)))]] * mixer.heads)


def _twin(maps: Twin) -> Twin:
    def twin(mixer: Reformer | Chunked, x: Tensor, marks: Tensor | None = None) -> Tensor:
        v = mixer.v(x).view(len(x), mixer.heads, -1)
        return mixer.out(torch.einsum("hts,shk->thk", maps(mixer, x), v).flatten(1))

    return twin


TWINS: dict[str, Twin] = {"reformer": _twin(reformer_maps), "chunked": _twin(chunked_maps)}
MAPS: dict[str, Twin] = {"reformer": reformer_maps, "chunked": chunked_maps}
SORTED = {"reformer"}
