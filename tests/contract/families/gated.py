"""Gated recurrences and long convolutions: RWKV, Hyena's convolution, RG-LRU and minGRU."""

import math

import torch
from common import SITE, Case, Twin
from torch import Tensor

from attentif.nn.mixers.gated_conv import GatedConv, GatedConvConfig
from attentif.nn.mixers.gated_recurrence import GatedRecurrence, GatedRecurrenceConfig
from attentif.nn.mixers.rwkv import ChannelMix, ChannelMixConfig, TimeMix, TimeMixConfig
from attentif.nn.mixers.rwkv7 import DeltaMix, DeltaMixConfig

CASES: dict[str, Case] = {
    "rwkv-time": (TimeMixConfig(), SITE),
    "rwkv-time-narrow": (TimeMixConfig(hidden=10), SITE),
    "rwkv-channel": (ChannelMixConfig(), SITE),
    "rwkv-channel-narrow": (ChannelMixConfig(hidden=24), SITE),
    "rwkv-channel-7": (ChannelMixConfig(receptance=False), SITE),
    "rwkv7-time": (DeltaMixConfig(head_width=4, rank=3, gate_rank=5), SITE),
    "rwkv7-time-one-head": (DeltaMixConfig(head_width=16, rank=2, gate_rank=2), SITE),
    "gated-conv": (GatedConvConfig(horizon=24, filter_width=6, filter_layers=2, bands=2, frequency=1.0), SITE),
    "gated-conv-order-3": (GatedConvConfig(order=3, conv=4, horizon=10, filter_width=5, filter_layers=1, bands=1), SITE),
    "gated-recurrence-rg-lru": (GatedRecurrenceConfig(), SITE),
    "gated-recurrence-rg-lru-blocks": (GatedRecurrenceConfig(hidden=24, blocks=4, conv=3), SITE),
    "gated-recurrence-min-gru": (GatedRecurrenceConfig(form="min-gru", gated=False, conv=0), SITE),
    "gated-recurrence-min-gru-gated": (GatedRecurrenceConfig(form="min-gru", hidden=12, blocks=2), SITE),
}


def one_before(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def time_twin(mixer: TimeMix, x: Tensor, marks: Tensor | None = None) -> Tensor:
    before = one_before(x)
    v, r = ((mix * x + (1 - mix) * before) @ project.weight.T for mix, project in ((mixer.mix_v, mixer.v), (mixer.mix_r, mixer.r)))
    y = (time_weights(mixer, x) @ v.T[..., None]).squeeze(-1).T
    return (torch.sigmoid(r) * y) @ mixer.out.weight.T


def time_weights(mixer: TimeMix, x: Tensor) -> Tensor:
    """(hidden, T, T): every weight of every past token written out."""
    k = (mixer.mix_k * x + (1 - mixer.mix_k) * one_before(x)) @ mixer.k.weight.T
    rows = []
    for t in range(len(x)):
        back = torch.arange(t - 1, -1, -1)[:, None]  # steps between each past token and the one before t
        weights = torch.cat([torch.exp(k[:t] - back * torch.exp(mixer.decay)), torch.exp(mixer.bonus + k[t : t + 1])])
        rows.append(torch.cat([weights / weights.sum(0), torch.zeros_like(k[t + 1 :])]))
    return torch.stack(rows).permute(2, 0, 1)


def split_heads(channels: Tensor) -> Tensor:
    """(channels, T, T) as the means of eight groups of neighbours."""
    return torch.stack([group.mean(0) for group in channels.tensor_split(8)])


def time_maps(mixer: TimeMix, x: Tensor, marks: Tensor | None = None) -> Tensor:
    return split_heads(time_weights(mixer, x))


def channel_twin(mixer: ChannelMix, x: Tensor, marks: Tensor | None = None) -> Tensor:
    before = one_before(x)
    k = (mixer.mix_k * x + (1 - mixer.mix_k) * before) @ mixer.k.weight.T
    y = torch.where(k > 0, k, 0) ** 2 @ mixer.out.weight.T
    return y if mixer.r is None else torch.sigmoid((mixer.mix_r * x + (1 - mixer.mix_r) * before) @ mixer.r.weight.T) * y


def delta_twin(mixer: DeltaMix, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """One token after the other, one head after the other."""
    H, K = mixer.heads, mixer.head_width
    memory, outputs = [x.new_zeros(K, K) for _ in range(H)], []
    for now, before in zip(x, one_before(x), strict=True):
        r, w, k, v, a, g = (mix * now + (1 - mix) * before for mix in mixer.mix)
        r, k, v = mixer.r.weight @ r, mixer.k.weight @ k, mixer.v.weight @ v
        w = torch.exp(
            -math.exp(-0.5) * torch.sigmoid(mixer.decay_up.weight @ torch.tanh(mixer.decay_down.weight @ w) + mixer.decay_up.bias)
        )
        a = torch.sigmoid(mixer.rate_up.weight @ (mixer.rate_down.weight @ a) + mixer.rate_up.bias)
        g = mixer.gate_up.weight @ torch.sigmoid(mixer.gate_down.weight @ g)
        kappa, k = k * mixer.removed, k * (1 + (a - 1) * mixer.replaced)
        parts = []
        for h in range(H):
            own = slice(h * K, (h + 1) * K)
            unit = kappa[own] / kappa[own].norm()
            M = memory[h]  # rows by key
            memory[h] = w[own, None] * M - torch.outer(unit * a[own], unit @ M) + torch.outer(k[own], v[own])
            y = r[own] @ memory[h]
            y = (y - y.mean()) / torch.sqrt(y.var(correction=0) + 64e-5) * mixer.norm.weight[own] + mixer.norm.bias[own]
            parts.append(y + (r[own] * k[own] * mixer.bonus[h]).sum() * v[own])
        outputs.append(mixer.out.weight @ (torch.cat(parts) * g))
    return torch.stack(outputs)


def gated_conv_twin(mixer: GatedConv, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """Sums written out, from the network that gives the filters to the gates."""
    config, D = mixer.config, x.shape[1]
    entry = torch.cat([x.new_zeros(config.conv - 1, mixer.short.shape[0]), x @ mixer.entry.weight.T + mixer.entry.bias])
    short = torch.stack([(entry[t : t + config.conv] * mixer.short.T).sum(0) for t in range(len(x))]) + mixer.short_bias
    *gates, z = short.split(D, 1)
    filters = torch.stack([implicit_filter(mixer, distance) for distance in range(len(x))], 1)  # (order - 1, T, D)
    for i in range(config.order - 1, 0, -1):
        z = gates[i] * z
        h = filters[config.order - 1 - i]
        z = torch.stack([sum(h[t - s] * z[s] for s in range(t + 1)) for t in range(len(x))]) + mixer.direct[config.order - 1 - i] * z
    return (gates[0] * z) @ mixer.out.weight.T + mixer.out.bias


def implicit_filter(mixer: GatedConv, distance: int) -> Tensor:
    """(order - 1, D)."""
    config, network = mixer.config, mixer.filters
    t = distance / config.horizon
    bands = torch.linspace(1e-4, config.bands - 1, config.bands, dtype=torch.float64)
    x = torch.cat([torch.tensor([t], dtype=torch.float64), torch.cos(2 * math.pi * bands * t), torch.sin(2 * math.pi * bands * t)])
    for layer in network.layers:
        x = torch.sin(network.frequency * (layer.weight @ x + layer.bias))
    D = mixer.width
    fast, slow = math.log(100) / 0.3, math.log(100) / 1.5
    decays = torch.tensor([fast + (slow - fast) * i / (D - 1) for i in range(D)], dtype=torch.float64)
    return (network.out.weight @ x).view(-1, D) * torch.exp(-decays * t)


def gated_recurrence_twin(mixer: GatedRecurrence, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """One step after the other."""
    h, states = x.new_zeros(mixer.hidden), []
    for a, c, value in zip(*recurrence_parts(mixer, x), strict=True):
        h = a * h + c * value
        states.append(h)
    y = torch.stack(states)
    if mixer.config.gated:
        gate = x @ mixer.gate.weight.T + mixer.gate.bias
        y = y * 0.5 * gate * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    return y @ mixer.out.weight.T + mixer.out.bias


def recurrence_parts(mixer: GatedRecurrence, x: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Of every step: what is kept of the state, the factor of what comes in, and what comes in."""
    config = mixer.config
    u = x @ mixer.entry.weight.T + mixer.entry.bias
    if config.conv:
        before = torch.cat([u.new_zeros(config.conv - 1, u.shape[1]), u])
        u = torch.stack([(before[t : t + config.conv] * mixer.short.T).sum(0) for t in range(len(x))]) + mixer.short_bias
    first, second = (in_blocks(u, weight) + bias for weight, bias in zip(mixer.gates, mixer.gate_biases, strict=True))
    enters = torch.sigmoid(first)
    if config.form == "min-gru":
        return [1 - z for z in enters], list(enters), second
    kept = torch.exp(-8 * torch.sigmoid(second) * torch.log1p(torch.exp(mixer.decay)))
    return list(kept), [i * (torch.sqrt(1 - a**2) if t else 1) for t, (a, i) in enumerate(zip(kept, enters, strict=True))], u


def recurrence_maps(mixer: GatedRecurrence, x: Tensor, marks: Tensor | None = None) -> Tensor:
    a, c, _ = recurrence_parts(mixer, x)
    T = len(x)
    channels = x.new_zeros(mixer.hidden, T, T)
    for t in range(T):
        for s in range(t + 1):
            channels[:, t, s] = c[s] * torch.stack([torch.ones_like(c[s]), *a[s + 1 : t + 1]]).prod(0)
    return split_heads(channels)


def in_blocks(x: Tensor, weight: Tensor) -> Tensor:
    """Each block of components by its own matrix (K, K)."""
    return torch.cat([part @ block for part, block in zip(x.split(weight.shape[1], 1), weight, strict=True)], 1)


ROUNDED = {"gated-conv"}
TWINS: dict[str, Twin] = {
    "rwkv-time": time_twin,
    "rwkv-channel": channel_twin,
    "rwkv7-time": delta_twin,
    "gated-conv": gated_conv_twin,
    "gated-recurrence": gated_recurrence_twin,
}
MAPS: dict[str, Twin] = {"rwkv-time": time_maps, "gated-recurrence": recurrence_maps}
