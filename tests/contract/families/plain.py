"""Mixers that ignore their neighbours, branches side by side, and the mixer that the documentation writes."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import HEADS, SITE, Case, Twin
from families.attention import attention_twin
from torch import Tensor

from attentif.nn.block import Parallel, ParallelConfig, SublayerConfig
from attentif.nn.ffn import ACTIVATIONS, GATED, FeedForward, FeedForwardConfig
from attentif.nn.mixer import MIXERS
from attentif.nn.mixers import AttentionConfig
from attentif.plugin import load_plugin

load_plugin(Path(__file__).parents[3] / "docs" / "examples" / "shift.py")  # what the documentation shows keeps the contract too

PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu-quick": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}
GATES = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}


def gated(activation: str, gate: Tensor, up: Tensor) -> Tensor:
    if activation == "swiglu-clamped":
        gate, up = gate.clamp(max=7), up.clamp(min=-7, max=7)
        return (up + 1) * gate / (1 + torch.exp(-1.702 * gate))
    return PLAIN[GATES[activation]](gate) * up


def _parallel(causal: bool) -> ParallelConfig:
    attention = SublayerConfig(mixer=AttentionConfig(heads=HEADS, causal=causal), placement="pre")
    ffn = SublayerConfig(mixer=FeedForwardConfig(activation="silu"), placement="sandwich", weight=0.5)
    return ParallelConfig(branches={"attn": attention, "ffn": ffn})


CASES: dict[str, Case] = {
    **{f"feed-forward-{activation}": (FeedForwardConfig(activation=activation), SITE) for activation in (*ACTIVATIONS, *GATED)},
    "shift": (MIXERS["shift"](kind="shift"), SITE),
    "parallel-causal": (_parallel(causal=True), SITE),
    "parallel-bidirectional": (_parallel(causal=False), SITE),
}


def feed_forward_twin(mixer: FeedForward, x: Tensor, marks: Tensor | None = None) -> Tensor:
    name = mixer.config.activation
    return mixer.out(PLAIN[name](mixer.up(x)) if mixer.gate is None else gated(name, mixer.gate(x), mixer.up(x)))


def parallel_twin(mixer: Parallel, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """The branches of `cases.py`: attention after a norm, plus half of a feed-forward between two norms."""
    attn, ffn = mixer.branches.attn, mixer.branches.ffn

    def normed(norm: Any, y: Tensor) -> Tensor:
        return F.layer_norm(y, y.shape[-1:], norm.weight, norm.bias)

    first = attention_twin(attn.mixer, normed(attn.norm_in, x), marks)
    second = normed(ffn.norm_out, feed_forward_twin(ffn.mixer, normed(ffn.norm_in, x)))
    return first + 0.5 * second


def shift_twin(mixer: Any, x: Tensor, marks: Tensor | None = None) -> Tensor:
    before = torch.zeros_like(x[0])
    steps = []
    for now in x:
        steps.append(mixer.out.weight @ (mixer.share * now + (1 - mixer.share) * before) + mixer.out.bias)
        before = now
    return torch.stack(steps)


TWINS: dict[str, Twin] = {"shift": shift_twin, "feed-forward": feed_forward_twin, "parallel": parallel_twin}
