"""Fused steps of mixers with a matrix of memory for each head: RWKV-7, Mamba-2, linear and gated linear attention."""

import torch
from torch import nn

from attentif.decode.engine.lower import lowers
from attentif.decode.engine.lower_recurrent import lower_shift
from attentif.decode.engine.plan import Buffer, MixerInput, Plan, Sink, UnsupportedError
from attentif.kernels.fused import program as vm
from attentif.kernels.fused.products import DECAY, SIGMOID, SOFTPLUS, TANH
from attentif.kernels.fused.recall import DELTA, ELU, FEATURES, GATED, RELU, SOFTMAX, SQUARED_RELU, SSD
from attentif.nn.mixer import Recordable
from attentif.nn.mixers.gated_linear import GatedLinear
from attentif.nn.mixers.linear import LinearAttention
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.mixers.rwkv7 import DeltaMix
from attentif.nn.norm import RMSNormByGroup

KINDS = {"elu": ELU, "relu": RELU, "squared-relu": SQUARED_RELU, "softmax": SOFTMAX}


def _recall(kind: int, heads: int, rows: int, columns: int, y: Buffer, slot: int, *given: Buffer) -> dict[int, int]:
    """The fields that all kinds share; what is given comes in pairs from field 12 on."""
    fields = {0: vm.RECALL, 4: heads, 5: rows, 6: columns, 7: y.address, 8: y.stride, 9: kind, 10: slot}
    for number, buffer in enumerate(given):
        fields |= {12 + 2 * number: buffer.address, 13 + 2 * number: buffer.stride}
    return fields


@lowers(DeltaMix)
def lower_delta_mix(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, DeltaMix)
    D = source.buffer.width
    of_r, of_w, of_k, of_v, of_a, of_g = lower_shift(plan, path, source, [mix.detach() for mix in mixer.mix])
    r, decay, k, v, rate, gate, y = (plan.buffer(D) for _ in range(7))
    for given, module, target in ((of_r, mixer.r, r), (of_k, mixer.k, k), (of_v, mixer.v, v)):
        plan.linear(MixerInput(given), [(module, target)])
    low = ((of_w, mixer.decay_down, TANH, mixer.decay_up, DECAY, decay), (of_a, mixer.rate_down, 0, mixer.rate_up, SIGMOID, rate))
    for given, down, middle, up, last, target in (*low, (of_g, mixer.gate_down, SIGMOID, mixer.gate_up, 0, gate)):
        inner = plan.buffer(down.out_features)
        plan.linear(MixerInput(given), [(down, inner)], activation=middle)
        plan.linear(MixerInput(inner), [(up, target)], activation=last)
    fields = _recall(DELTA, mixer.heads, mixer.head_width, mixer.head_width, y, plan.slot(path, "memory"), r, decay, k, v, rate, gate)
    learned = (mixer.removed, mixer.replaced, mixer.bonus, mixer.norm.weight, mixer.norm.bias)
    plan.emit(fields | {24 + number: plan.address(tensor) for number, tensor in enumerate(learned)}, [mixer.norm.eps])
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(Mamba2)
def lower_mamba2(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, Mamba2)
    E, S, shared = mixer.inner, mixer.config.state, mixer.shared
    source = MixerInput(plan.normalise(source))
    z, raw, mixed, delta, y = (plan.buffer(width) for width in (E, E + 2 * shared, E + 2 * shared, mixer.heads, E))
    plan.linear(source, [(mixer.gate, z), (mixer.inp, raw)])
    plan.linear(source, [(mixer.step, delta)], activation=SOFTPLUS)
    taps = plan.address(mixer.conv.detach().T.contiguous())
    fields = {0: vm.CONV, 1: raw.address, 2: raw.stride, 3: raw.width, 4: taps, 5: plan.address(mixer.conv_bias), 6: mixer.config.conv}
    plan.emit(fields | {7: mixed.address, 8: mixed.stride, 10: plan.slot(path, "tail")})
    u, B, C = mixed.part(0, E), mixed.part(E, E + shared), mixed.part(E + shared, E + 2 * shared)
    fields = _recall(SSD, mixer.heads, S, mixer.config.head_width, y, plan.slot(path, "h"), u, delta, B, C, z)
    rates = plan.address(-torch.exp(mixer.A_log.detach()))
    plan.emit(fields | {24: rates, 25: plan.address(mixer.D), 26: mixer.config.groups})
    if not isinstance(mixer.norm, RMSNormByGroup):
        plan.project(MixerInput(y, mixer.norm), mixer.out, sink)
        return
    width = E // mixer.norm.groups
    for group in range(mixer.norm.groups):
        norm = nn.RMSNorm(width, mixer.norm.eps)
        norm.weight = nn.Parameter(mixer.norm.weight.detach()[group * width : (group + 1) * width], requires_grad=False)
        part = y.part(group * width, (group + 1) * width)
        plan.norm(norm, part, Sink(part))
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(GatedLinear)
def lower_gated_linear(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, GatedLinear)
    H, K, V = mixer.heads, mixer.K, mixer.V
    source = MixerInput(plan.normalise(source))
    q, k, v, logits, y = (plan.buffer(H * width) for width in (K, K, V, K, V))
    low, gate = plan.buffer(mixer.decay_down.out_features), plan.buffer(H * V)
    plan.linear(source, [(mixer.q, q), (mixer.k, k), (mixer.v, v)])
    plan.linear(source, [(mixer.decay_down, low)])
    plan.linear(MixerInput(low), [(mixer.decay_up, logits)])
    fields = _recall(GATED, H, K, V, y, plan.slot(path, "sums"), q, k, v, logits)
    if mixer.gate is not None:
        plan.linear(source, [(mixer.gate, gate)])
        fields |= {20: gate.address, 21: gate.stride}
    norm, eps = plan.norm_fields(mixer.norm, 24)
    plan.emit(fields | norm, [eps, 1 / mixer.config.slowness, K**-0.5])
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(LinearAttention)
def lower_linear_attention(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, LinearAttention)
    if not mixer.causal:
        raise UnsupportedError("attention both ways")
    H, K = mixer.heads, mixer.head_width
    q, k, v, y = (plan.buffer(H * K) for _ in range(4))
    plan.linear(source, [(mixer.q, q), (mixer.k, k), (mixer.v, v)])
    fields = _recall(FEATURES, H, K, K, y, plan.slot(path, "sums"), q, k, v)
    plan.emit(fields | {24: KINDS[mixer.config.features], 25: int(mixer.by_feature)}, [mixer.config.eps])
    plan.project(MixerInput(y), mixer.out, sink)
