"""Recurrent decoders with attention: every cell, score, feeding, first state and readout."""

from dataclasses import replace

import torch
from common import MEMORY_WIDTH, SITE, Case, Twin, make
from torch import Tensor

from attentif.nn.mixers.attentive import AttentiveConfig, AttentiveRecurrence

ACROSS = replace(SITE, memory_width=MEMORY_WIDTH)
M = MEMORY_WIDTH
VARIANTS: dict[str, dict[str, object]] = {
    "bahdanau": {"cell": "gru", "start": "first", "readout": "maxout", "score_width": 10},
    "luong-general": {"cell": "lstm", "layers": 2, "score": "general", "feeding": "input", "start": "last"},
    "luong-dot": {"cell": "lstm", "layers": 2, "score": "dot", "feeding": "input", "hidden": M},
    "luong-location": {"cell": "lstm", "score": "location", "places": 8, "feeding": "input", "hidden": 9},
    "location-far": {"cell": "gru", "score": "location", "places": 30, "feeding": "context"},
    "cosine": {"cell": "gru", "score": "cosine", "hidden": M, "feeding": "context", "start": "mean"},
    "cosine-from-zero": {"cell": "lstm", "score": "cosine", "hidden": M, "feeding": "context"},
    "scaled-dot": {"cell": "rnn", "layers": 3, "score": "scaled-dot", "hidden": M, "feeding": "context"},
    "unfed": {"cell": "lstm", "layers": 2, "score": "additive", "feeding": "none", "start": "mean"},
    "unfed-maxout": {"cell": "rnn", "score": "cosine", "feeding": "none", "hidden": M, "start": "last", "readout": "maxout"},
    "input-maxout": {"cell": "gru", "layers": 2, "score": "additive", "feeding": "input", "readout": "maxout"},
}
CASES: dict[str, Case] = {f"attentive-{name}": (make(AttentiveConfig, **values), ACROSS) for name, values in VARIANTS.items()}


def _score(mixer: AttentiveRecurrence, s: Tensor, m: Tensor, place: int) -> Tensor:
    """e_j of one state and one place."""
    align = mixer.score
    match mixer.config.score:
        case "additive":
            return align.v @ torch.tanh(align.q.weight @ s + align.k.weight @ m + align.k.bias)
        case "general":
            return s @ align.k.weight @ m
        case "dot":
            return s @ m
        case "location":
            scores = align.q.weight @ s + align.q.bias
            return scores[place] if place < mixer.config.places else torch.tensor(-torch.inf, dtype=s.dtype)
        case "cosine":
            norms = s.norm() * m.norm()
            return align.sharpness * (s @ m) / norms if norms > 0 else 0 * (s @ m)
        case "scaled-dot":
            return s @ m / len(s) ** 0.5
    raise NotImplementedError(mixer.config.score)


def _cell(mixer: AttentiveRecurrence, layer: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One step of one cell, gate by gate."""
    cell, N = mixer.cells[layer], mixer.hidden
    a, u = x.split(N), (cell.w_h @ h).split(N)
    match mixer.config.cell:
        case "rnn":
            return torch.tanh(a[0] + u[0]), c
        case "gru":
            r, z = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
            return (1 - z) * torch.tanh(a[2] + r * (u[2] + cell.b_h)) + z * h, c
        case "lstm":
            i, f, o = (torch.sigmoid(a[gate] + u[gate]) for gate in (0, 1, 3))
            c = f * c + i * torch.tanh(a[2] + u[2])
            return o * torch.tanh(c), c


def _steps(mixer: AttentiveRecurrence, x: Tensor, memory: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and weights, step by step."""
    config, L, N = mixer.config, mixer.layers, mixer.hidden
    h, c = ([x.new_zeros(N)] * L for _ in range(2))
    if mixer.start is not None:
        m = {"first": memory[0], "last": memory[-1], "mean": memory.mean(0)}[config.start]
        first = torch.tanh(mixer.start.weight @ m + mixer.start.bias).split(N)
        h, c = list(first[:L]), list(first[L:]) or c
    y, outputs, maps = torch.zeros_like(x[0]), [], []

    def read(s: Tensor) -> Tensor:
        weights = torch.stack([_score(mixer, s, m, j) for j, m in enumerate(memory)]).softmax(0)
        maps.append(weights)
        return sum(weight * m for weight, m in zip(weights, memory, strict=True))

    for x_t in x:
        context = read(h[-1]) if config.feeding == "context" else None
        below = mixer.cells[0].w_x.weight @ x_t + mixer.cells[0].w_x.bias
        if config.feeding != "none":
            below = below + mixer.feed.weight @ (y if context is None else context)
        for layer in range(L):
            if layer:
                below = mixer.cells[layer].w_x.weight @ h[layer - 1] + mixer.cells[layer].w_x.bias
            h_new, c_new = _cell(mixer, layer, below, h[layer], c[layer])
            h, c = [*h[:layer], h_new, *h[layer + 1 :]], [*c[:layer], c_new, *c[layer + 1 :]]
        context = read(h[-1]) if context is None else context
        if config.readout == "tanh":
            y = torch.tanh(mixer.out.weight @ torch.cat([context, h[-1]]) + mixer.out.bias)
        else:
            both = mixer.out.weight @ torch.cat([h[-1], context, x_t]) + mixer.out.bias
            y = torch.maximum(both[0::2], both[1::2])
        outputs.append(y)
    return outputs, maps


def attentive_twin(mixer: AttentiveRecurrence, x: Tensor, memory: Tensor) -> Tensor:
    return torch.stack(_steps(mixer, x, memory)[0])


def attentive_maps(mixer: AttentiveRecurrence, x: Tensor, memory: Tensor) -> Tensor:
    return torch.stack(_steps(mixer, x, memory)[1])[None]


TWINS: dict[str, Twin] = {"attentive-recurrence": attentive_twin}
MAPS: dict[str, Twin] = {"attentive-recurrence": attentive_maps}
