"""The definition of each mixer for one sequence alone: no masks, no batch, no kernel, no cache. Slow and plain on purpose."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.nn.block import Parallel
from attentif.nn.ffn import FeedForward
from attentif.nn.mixers import Attention, CrossAttention
from attentif.nn.pattern import Global, Window
from attentif.nn.rotary import Rotary

PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}
GATES = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}


def attention_twin(mixer: Attention, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return mixer.out(torch.cat([weights @ v for weights, v in attention_heads(mixer, x, marks)], -1))


def attention_heads(mixer: Attention, x: Tensor, marks: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    """The weights (T, T) and the values (T, K) of each head."""
    config, T, K = mixer.config, len(x), mixer.head_width
    heads, groups = config.heads, config.kv_heads or config.heads
    q, k, v = (project(x).view(T, -1, K) for project in (mixer.q, mixer.k, mixer.v))
    if mixer.q_norm is not None and mixer.k_norm is not None:
        q, k = mixer.q_norm(q), mixer.k_norm(k)
    if mixer.rotary is not None:
        q, k = turned(mixer.rotary, q), turned(mixer.rotary, k)
    scale = config.scale or 1 / math.sqrt(K)
    places = torch.arange(T)
    bias = mixer.position_bias(places, places) if mixer.position_bias is not None else torch.zeros(heads, T, T)
    sees = torch.tensor([[may_look(config, i, j, marks) for j in range(T)] for i in range(T)])
    result = []
    for h in range(heads):
        g = h // (heads // groups)
        scores = scale * q[:, h] @ k[:, g].T + bias[h]
        if config.softcap is not None:
            scores = config.softcap * torch.tanh(scores / config.softcap)
        result.append((scores.masked_fill(~sees, -math.inf).softmax(-1), v[:, g]))
    return result


def may_look(config: Any, i: int, j: int, marks: Tensor | None) -> bool:
    """Whether the query at place i may look at the key at place j."""
    if config.causal and j > i:
        return False
    return not config.pattern or any(_entry_allows(entry, i, j, marks) for entry in config.pattern)


def _entry_allows(entry: Any, i: int, j: int, marks: Tensor | None) -> bool:
    match entry:
        case Window():
            return i - entry.left <= j <= i + entry.right
        case Global():
            return any(place in entry.at or (marks is not None and bool(marks[place])) for place in (i, j))
    raise NotImplementedError(entry)


def turned(rotary: Rotary, x: Tensor) -> Tensor:
    """Each pair of components as a complex number, times e^(i p θ)."""
    T, width = len(x), rotary.width
    theta = rotary.frequencies(torch.tensor(T))
    amplitude = rotary.config.scaling.amplitude() if rotary.config.scaling else 1.0
    angle = torch.arange(T)[:, None, None] * theta
    part, rest = x[..., :width], x[..., width:]
    half = rotary.config.pairs == "half"
    a, b = (part[..., : width // 2], part[..., width // 2 :]) if half else (part[..., 0::2], part[..., 1::2])
    z = torch.complex(a, b) * torch.polar(torch.full_like(angle, amplitude), angle)
    return torch.cat([z.real, z.imag, rest] if half else [torch.stack([z.real, z.imag], -1).flatten(-2), rest], -1)


def feed_forward_twin(mixer: FeedForward, x: Tensor, marks: Tensor | None = None, activation: str = "") -> Tensor:
    a = PLAIN[GATES.get(activation, activation)]
    if mixer.gate is None:
        return mixer.out(a(mixer.up(x)))
    return mixer.out(a(mixer.gate(x)) * mixer.up(x))


def parallel_twin(mixer: Parallel, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """The branches of `cases.py`: attention after a norm, plus half of a feed-forward between two norms."""
    attn, ffn = mixer.branches.attn, mixer.branches.ffn

    def normed(norm: Any, y: Tensor) -> Tensor:
        return F.layer_norm(y, y.shape[-1:], norm.weight, norm.bias)

    first = attention_twin(attn.mixer, normed(attn.norm_in, x), marks)
    second = normed(ffn.norm_out, feed_forward_twin(ffn.mixer, normed(ffn.norm_in, x), activation="silu"))
    return first + 0.5 * second


def cross_twin(mixer: CrossAttention, x: Tensor, memory: Tensor) -> Tensor:
    K = mixer.head_width
    q, k, v = mixer.q(x).view(len(x), -1, K), mixer.k(memory).view(len(memory), -1, K), mixer.v(memory).view(len(memory), -1, K)
    heads = [(q[:, h] @ k[:, h].T / math.sqrt(K)).softmax(-1) @ v[:, h] for h in range(mixer.heads)]
    return mixer.out(torch.cat(heads, -1))


def shift_twin(mixer: Any, x: Tensor, marks: Tensor | None = None) -> Tensor:
    before = torch.zeros_like(x[0])
    steps = []
    for now in x:
        steps.append(mixer.out.weight @ (mixer.share * now + (1 - mixer.share) * before) + mixer.out.bias)
        before = now
    return torch.stack(steps)


TWINS: dict[str, Callable[..., Tensor]] = {
    "shift": shift_twin,
    "attention": attention_twin,
    "feed-forward": feed_forward_twin,
    "parallel": parallel_twin,
    "cross-attention": cross_twin,
}
