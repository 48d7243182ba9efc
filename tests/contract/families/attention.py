"""Attention in every variant, to itself and to a memory."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from common import HEADS, MEMORY_WIDTH, SITE, Case, Twin
from torch import Tensor

from attentif.nn.bias import ALiBiConfig, PositionBiasConfig, RelativeConfig, RelativePlaneConfig, RoundedALiBiConfig
from attentif.nn.distance import DistanceConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers import Attention, AttentionConfig, CrossAttention, CrossAttentionConfig
from attentif.nn.mixers.attention import SharpeningConfig
from attentif.nn.norm import LayerNormConfig, RMSNormConfig
from attentif.nn.pattern import GlobalPattern, RandomPattern, ShortPattern, WindowPattern
from attentif.nn.rotary import LinearScaling, Llama3Scaling, NTKScaling, Rotary, RotaryConfig, YarnScaling


def biased(bias: PositionBiasConfig) -> Site:
    torch.manual_seed(0)
    return replace(SITE, bias=bias.build().double())


def _attention_cases() -> Iterator[tuple[str, AttentionConfig, Site]]:
    def make(**values: object) -> AttentionConfig:
        return AttentionConfig.model_validate({"heads": HEADS} | values)

    for causal in (True, False):
        way = "causal" if causal else "bidirectional"
        yield f"attention-{way}", make(causal=causal), SITE
        yield f"attention-grouped-{way}", make(causal=causal, kv_heads=2), SITE
        yield f"attention-multi-query-{way}", make(causal=causal, kv_heads=1), SITE
        yield f"attention-qk-norm-{way}", make(causal=causal, qk_norm=RMSNormConfig()), SITE
        yield f"attention-qk-norm-of-all-{way}", make(causal=causal, kv_heads=2, qk_norm=RMSNormConfig(), qk_norm_of="all"), SITE
        yield f"attention-softcap-{way}", make(causal=causal, softcap=1.5), SITE
        yield f"attention-sinks-{way}", make(causal=causal, kv_heads=2, sinks=True), SITE
        yield f"attention-alibi-{way}", make(causal=causal), biased(ALiBiConfig(heads=HEADS))
        yield f"attention-alibi-rounded-{way}", make(causal=causal), biased(RoundedALiBiConfig(heads=HEADS, scale=0.5))
        yield f"attention-qk-norm-own-{way}", make(causal=causal, kv_heads=2, qk_norm=LayerNormConfig(), qk_norm_of="own"), SITE
        relative = RelativeConfig(heads=HEADS, buckets=8, max_distance=20, bidirectional=not causal)
        yield f"attention-relative-{way}", make(causal=causal), biased(relative)
        window = WindowPattern(left=4, right=0 if causal else 2)
        yield f"attention-window-{way}", make(causal=causal, pattern=(window,)), SITE
        yield f"attention-global-{way}", make(causal=causal, pattern=(window, GlobalPattern(at=(0, 3)))), SITE
        yield f"attention-rotary-{way}", make(causal=causal, rotary=RotaryConfig()), SITE
        yield f"attention-rotary-of-the-input-{way}", make(causal=causal, rotary=RotaryConfig(of="input")), SITE
        yield f"attention-distances-{way}", make(causal=causal, distances=DistanceConfig()), SITE
        plane = RelativePlaneConfig(heads=HEADS, rows=8, columns=16)
        yield f"attention-relative-2d-{way}", make(causal=causal), biased(plane)
        yield f"attention-own-bias-{way}", make(causal=causal, own_bias=plane), SITE
    yield "attention-window-both-ways", make(pattern=(WindowPattern(left=2, right=5),)), SITE
    yield "attention-no-bias", make(causal=True, bias=False, out_bias=False), SITE
    yield "attention-head-width", make(causal=True, heads=3, head_width=6, scale=0.7), SITE
    scalings = {
        "linear": LinearScaling(factor=4.0),
        "ntk": NTKScaling(factor=2.0, trained=8),
        "yarn": YarnScaling(factor=4.0, trained=8),
        "llama3": Llama3Scaling(factor=8.0, trained=8),
    }
    for name, scaling in scalings.items():
        yield f"attention-rotary-{name}", make(causal=True, rotary=RotaryConfig(scaling=scaling, base=100.0)), SITE
    yield "attention-sinks-window", make(causal=True, kv_heads=2, sinks=True, pattern=(WindowPattern(left=4),)), SITE
    yield "attention-sharpened", make(causal=True, sharpening=SharpeningConfig(every=3, rate=0.5)), SITE
    yield "attention-qk-norm-no-gain", make(causal=True, qk_norm=RMSNormConfig(gain=False), rotary=RotaryConfig(pairs="adjacent")), SITE
    yield "attention-chunks", make(causal=True, pattern=(WindowPattern(left=0, block=5),)), SITE
    yarn = YarnScaling(factor=4.0, trained=8, rounded=False)
    yield "attention-rotary-yarn-not-rounded", make(causal=True, rotary=RotaryConfig(scaling=yarn, base=100.0)), SITE
    yield "attention-rotary-ntk-bidirectional", make(rotary=RotaryConfig(scaling=scalings["ntk"])), SITE
    yield "attention-rotary-adjacent", make(causal=True, rotary=RotaryConfig(pairs="adjacent")), SITE
    yield "attention-rotary-half-of-it", make(causal=True, rotary=RotaryConfig(fraction=0.5)), SITE
    everything = make(
        causal=True, kv_heads=2, softcap=2.0, qk_norm=LayerNormConfig(), rotary=RotaryConfig(), pattern=(WindowPattern(left=6),)
    )
    yield "attention-everything-at-once", everything, biased(ALiBiConfig(heads=HEADS))


CASES: dict[str, Case] = {
    **{name: (config, site) for name, config, site in _attention_cases()},
    "cross-attention": (CrossAttentionConfig(heads=HEADS), replace(SITE, memory_width=MEMORY_WIDTH)),
    "cross-attention-head-width": (CrossAttentionConfig(heads=3, head_width=6, bias=False), replace(SITE, memory_width=MEMORY_WIDTH)),
}


def attention_twin(mixer: Attention, x: Tensor, marks: Tensor | None = None) -> Tensor:
    y = torch.cat([weights @ v for weights, v in attention_heads(mixer, x, marks)], -1)
    if mixer.config.global_projections:
        everywhere = torch.cat([weights @ v for weights, v in global_heads(mixer, x)], -1)
        y = torch.where(globals_of(mixer.config, len(x), marks)[:, None], everywhere, y)
    return mixer.out(y)


def attention_heads(mixer: Attention, x: Tensor, marks: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    """The weights (T, T) and the values (T, K) of each head."""
    config, T, K = mixer.config, len(x), mixer.head_width
    heads, groups = config.heads, config.kv_heads or config.heads
    of_input = config.rotary is not None and config.rotary.of == "input"
    placed = turned(mixer.rotary, x.view(T, heads, K)).flatten(1) if of_input else x
    q, k, v = mixer.q(placed).view(T, -1, K), mixer.k(placed).view(T, -1, K), mixer.v(x).view(T, -1, K)
    if mixer.q_norm is not None and mixer.k_norm is not None:
        together = config.qk_norm_of == "all"
        q, k = (norm(t.flatten(1)).view_as(t) if together else norm(t) for norm, t in ((mixer.q_norm, q), (mixer.k_norm, k)))
    if mixer.rotary is not None and not of_input:
        q, k = turned(mixer.rotary, q), turned(mixer.rotary, k)
    scale = config.scale or 1 / math.sqrt(K)
    places = torch.arange(T)
    if config.sharpening is not None:
        every, rate = config.sharpening.every, config.sharpening.rate
        q = q * q.new_tensor([1 + rate * math.log(1 + (place + 1) // every) for place in range(T)])[:, None, None]
    bias = mixer.position_bias(places, places) if mixer.position_bias is not None else torch.zeros(heads, T, T)
    result = []
    for h in range(heads):
        g = h // (heads // groups)
        sees = torch.tensor([[may_look(mixer, h, i, j, T, marks) for j in range(T)] for i in range(T)])
        times = torch.tensor([[how_often(config, i, j, T, marks) for j in range(T)] for i in range(T)])
        scores = scale * q[:, h] @ k[:, g].T + bias[h] + times.log()
        if mixer.distances is not None:
            scores = scale * distance_scores(mixer, q, k, h, g)
        if config.softcap is not None:
            scores = config.softcap * torch.tanh(scores / config.softcap)
        scores = scores.masked_fill(~sees, -math.inf)
        if mixer.sinks is not None:  # one more column, of a value that is zero
            scores = torch.cat([scores, mixer.sinks[h].expand(T, 1)], 1)
        result.append((scores.softmax(-1)[:, :T], v[:, g]))
    return result


def distance_scores(mixer: Attention, q: Tensor, k: Tensor, h: int, g: int) -> Tensor:
    """(q_i + u) · k_j + (q_i + v) · W_r S(i − j), pair by pair."""
    distances, T = mixer.distances, len(q)
    rows = []
    for i in range(T):
        waves = distances.waves.compute(torch.tensor([i - j for j in range(T)])).to(q.dtype)
        r = distances.project(waves).view(T, mixer.heads, -1)[:, h]
        rows.append(k[:, g] @ (q[i, h] + distances.key_bias[h]) + r @ (q[i, h] + distances.distance_bias[h]))
    return torch.stack(rows)


def global_heads(mixer: Attention, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The same for queries that see all, projected apart: as if every query were one."""
    apart = copy.copy(mixer)
    apart._modules = mixer._modules | {"q": mixer.q_global, "k": mixer.k_global, "v": mixer.v_global}
    apart.config = mixer.config.replace(pattern=(), global_projections=False)
    return attention_heads(apart, x)


def globals_of(config: AttentionConfig, T: int, marks: Tensor | None) -> Tensor:
    return torch.tensor([any(isinstance(e, GlobalPattern) and _is_global(e, i, T, marks) for e in config.pattern) for i in range(T)])


def how_often(config: AttentionConfig, i: int, j: int, T: int, marks: Tensor | None) -> float:
    """How many times the query at place i counts the key at place j."""
    short = any(isinstance(entry, ShortPattern) and entry.up_to >= T for entry in config.pattern)
    if short or any(isinstance(entry, GlobalPattern) and _is_global(entry, i, T, marks) for entry in config.pattern):
        return 1.0
    return math.prod(entry.weight for entry in config.pattern if isinstance(entry, GlobalPattern) and _is_global(entry, j, T, marks))


def may_look(mixer: Attention, h: int, i: int, j: int, T: int, marks: Tensor | None) -> bool:
    """Whether, in head h, the query at place i may look at the key at place j of a row of T."""
    config = mixer.config
    if config.causal and j > i:
        return False
    return not config.pattern or any(_entry_allows(mixer, entry, h, i, j, T, marks) for entry in config.pattern)


def _entry_allows(mixer: Attention, entry: Any, h: int, i: int, j: int, T: int, marks: Tensor | None) -> bool:
    match entry:
        case WindowPattern():
            return i // entry.block - entry.left <= j // entry.block <= i // entry.block + entry.right
        case GlobalPattern():
            return any(_is_global(entry, place, T, marks) for place in (i, j))
        case ShortPattern():
            return entry.up_to >= T
        case RandomPattern(table=()):
            drawn = entry.draw_blocks(T, mixer.config.causal, mixer.layer, mixer.heads)
            return j // entry.block in drawn[h, i // entry.block].tolist()
        case RandomPattern():
            return j // entry.block in entry.table[h % len(entry.table)][i // entry.block]
    raise NotImplementedError(entry)


def _is_global(entry: GlobalPattern, place: int, T: int, marks: Tensor | None) -> bool:
    block, blocks = place // entry.block, -(-T // entry.block)
    listed = place in entry.at or block < entry.first or block >= blocks - entry.last
    return listed or (marks is not None and bool(marks[place]))


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


def cross_twin(mixer: CrossAttention, x: Tensor, memory: Tensor) -> Tensor:
    v = mixer.v(memory).view(len(memory), -1, mixer.head_width)
    return mixer.out(torch.cat([weights @ v[:, h] for h, weights in enumerate(cross_maps(mixer, x, memory))], -1))


def cross_maps(mixer: CrossAttention, x: Tensor, memory: Tensor) -> Tensor:
    K = mixer.head_width
    q, k = mixer.q(x).view(len(x), -1, K), mixer.k(memory).view(len(memory), -1, K)
    return torch.stack([(q[:, h] @ k[:, h].T / math.sqrt(K)).softmax(-1) for h in range(mixer.heads)])


def attention_maps(mixer: Attention, x: Tensor, marks: Tensor | None = None) -> Tensor:
    weights = torch.stack([weights for weights, _ in attention_heads(mixer, x, marks)])
    if mixer.config.global_projections:
        everywhere = torch.stack([weights for weights, _ in global_heads(mixer, x)])
        weights = torch.where(globals_of(mixer.config, len(x), marks)[:, None], everywhere, weights)
    return weights


TWINS: dict[str, Twin] = {"attention": attention_twin, "cross-attention": cross_twin}
MAPS: dict[str, Twin] = {"attention": attention_maps, "cross-attention": cross_maps}
