"""Which mixers have fused instructions, and what they are. A mixer of another type decodes by its `forward`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attentif.decode.engine.plan import ACTIVATIONS, MixerInput, Plan, Sink, UnsupportedError
from attentif.kernels.fused import program as vm
from attentif.kernels.fused.attend import ADJACENT, HALF
from attentif.nn.bias import BY_POSITION
from attentif.nn.block import Parallel, Sublayer
from attentif.nn.ffn import CLAMPED, GATED, FeedForward
from attentif.nn.mixer import Recordable
from attentif.nn.mixers.attention import Attention
from attentif.nn.mixers.cross import CrossAttention
from attentif.nn.mixers.experts import Experts
from attentif.nn.mixers.latent import Latent
from attentif.nn.pattern import WindowPattern
from attentif.nn.rotary import Rotary

Lowering = Callable[[Plan, "Recordable", str, MixerInput, Sink], None]
LOWERINGS: dict[type[Recordable], Lowering] = {}
AT_ONCE: tuple[type[Recordable], ...] = (Attention, CrossAttention, Experts, FeedForward, Parallel)  # read several tokens of a text at once


def lowers(kind: type[Recordable]) -> Callable[[Lowering], Lowering]:
    """Decorator: the function emits the instructions of mixers of exactly this type."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS[kind] = lowering
        return lowering

    return register


def lower_mixer(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    lowering = LOWERINGS.get(type(mixer))
    if lowering is None or (plan.one_text and type(mixer) not in AT_ONCE):
        raise UnsupportedError(type(mixer).__name__)
    lowering(plan, mixer, path, source, sink)


def lower_sublayer(plan: Plan, sublayer: Sublayer, path: str, stream: MixerInput) -> None:
    """One residual sublayer on the residual stream, wherever its norms stand."""
    if sublayer.scale is not None:
        raise UnsupportedError("a learned scale of the branch")
    x = stream.buffer
    source = MixerInput(x, sublayer.norm_in)
    if sublayer.placement in ("branch", "sandwich"):
        if not sublayer.residual:
            raise UnsupportedError("a normalised branch without a residual")
        branch = plan.buffer(x.width)
        lower_mixer(plan, sublayer.mixer, path, source, Sink(branch))
        plan.norm(sublayer.norm_out, branch, Sink(x, add=True, weight=sublayer.weight))
        return
    lower_mixer(plan, sublayer.mixer, path, source, Sink(x, add=sublayer.residual, weight=sublayer.weight))
    if sublayer.placement in ("post", "both"):
        plan.norm(sublayer.norm_out, x, Sink(x))


def lower_activation(name: str) -> int:
    if name == CLAMPED or GATED.get(name, name) not in ACTIVATIONS:
        raise UnsupportedError(name)
    return ACTIVATIONS[GATED.get(name, name)]


@lowers(FeedForward)
def lower_feed_forward(plan: Plan, mixer: Recordable, _: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, FeedForward)
    activation = lower_activation(mixer.config.activation)
    inner = plan.buffer(mixer.up.out_features)
    if mixer.gate is None:
        plan.linear(source, [(mixer.up, inner)], activation=activation)
    else:
        plan.linear(source, [(mixer.gate, inner), (mixer.up, inner)], then=vm.GATE, activation=activation)
    plan.project(MixerInput(inner), mixer.out, sink)


@lowers(Attention)
def lower_attention(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, Attention)
    config, heads, groups, width = mixer.config, mixer.heads, mixer.groups, mixer.head_width
    plain_windows = all(isinstance(entry, WindowPattern) and entry.block == 1 for entry in config.pattern)
    if not plain_windows or not config.causal or mixer.distances is not None or (plan.one_text and config.pattern):
        raise UnsupportedError("attention with such a pattern")
    if config.sinks or config.sharpening is not None or isinstance(mixer.position_bias, BY_POSITION):
        raise UnsupportedError("attention with sinks, sharpening or a bias that does not follow from the distance")
    joined = plan.buffer((heads + 2 * groups) * width)
    ends = (heads * width, (heads + groups) * width, (heads + 2 * groups) * width)
    parts = [joined.part(start, stop) for start, stop in zip((0, *ends), ends, strict=False)]
    if mixer.turns_input:
        x = plan.normalise(source)
        turned = plan.buffer(x.width)
        fields = {0: vm.ROTATE, 1: x.address, 2: x.stride, 4: heads, 6: width, 7: turned.address, 8: turned.stride}
        plan.emit(fields | rotary_fields(plan, mixer.rotary))
        plan.linear(MixerInput(turned), list(zip((mixer.q, mixer.k), parts[:2], strict=True)))
        plan.linear(MixerInput(x), [(mixer.v, parts[2])])
    else:
        plan.linear(source, list(zip((mixer.q, mixer.k, mixer.v), parts, strict=True)))
    y = plan.buffer(heads * width)
    fields = {0: vm.ATTEND, 1: joined.address, 2: joined.stride, 3: y.address, 4: heads, 5: groups, 6: width, 7: y.stride}
    fields |= {10: plan.slot(path, "k"), 11: plan.slot(path, "v")}
    eps = 0.0
    if mixer.norms_all and mixer.q_norm is not None and mixer.k_norm is not None:
        plan.norm(mixer.q_norm, parts[0], Sink(parts[0]))
        plan.norm(mixer.k_norm, parts[1], Sink(parts[1]))
    elif mixer.q_norm is not None and mixer.k_norm is not None:
        q_norm, eps = plan.norm_fields(mixer.q_norm, 16)
        fields |= q_norm | plan.norm_fields(mixer.k_norm, 19)[0]
    fields |= {} if mixer.turns_input else rotary_fields(plan, mixer.rotary)
    fields |= _bias_fields(plan, mixer)
    reals = [mixer.scale, config.softcap or 0.0, eps]
    if plan.one_text:
        plan.emit(fields | {0: vm.KEEP, 4: groups, 25: heads}, reals)
        fields |= {24: 1}
    plan.emit(fields, reals)
    plan.project(MixerInput(y), mixer.out, sink)


def rotary_fields(plan: Plan, rotary: Rotary | None) -> dict[int, int]:
    """Width, tables of cos and sin by place, and pairs, from field 12 on."""
    if rotary is None:
        return {}
    places = torch.arange(plan.capacity)
    length = places + 1 if rotary.by_length else torch.zeros(())  # the token at place p has read p + 1

    def table(which: int) -> Callable[[], Tensor]:
        return lambda: rotary.cos_sin(places, rotary.frequencies(length))[which]

    cos, sin = (plan.table((which, rotary.config, rotary.width), table(which)) for which in (0, 1))
    return {12: rotary.width, 13: cos, 14: sin, 15: HALF if rotary.config.pairs == "half" else ADJACENT}


def _bias_fields(plan: Plan, mixer: Attention) -> dict[int, int]:
    bias = mixer.position_bias
    if bias is None:
        return {}

    def by_distance() -> Tensor:  # (H, capacity)
        found: Tensor = bias(torch.tensor([plan.capacity]), plan.capacity - torch.arange(plan.capacity))[:, 0]
        return found.detach()

    return {22: plan.table(bias, by_distance), 23: plan.capacity}


@lowers(Latent)
def lower_latent(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    """The absorbed form; where its maps are bytes, the two that change sides are used as float32."""
    assert isinstance(mixer, Latent)
    if not mixer.config.causal:
        raise UnsupportedError("attention both ways")
    H, K, P, V, rank = mixer.heads, mixer.K, mixer.P, mixer.V, mixer.rank
    q, y, latent = plan.buffer(H * (K + P)), plan.buffer(H * V), plan.buffer(rank + P)
    if mixer.q_down is None:
        plan.linear(source, [(mixer.q, q), (mixer.kv_down, latent)])
    else:
        below = plan.buffer(mixer.q_down.out_features)
        plan.linear(source, [(mixer.q_down, below), (mixer.kv_down, latent)])
        plan.linear(MixerInput(below, mixer.q_norm), [(mixer.q, q)])
    norm, eps = plan.norm_fields(mixer.kv_norm, 16)
    fields = {0: vm.LATENT, 1: q.address, 2: q.stride, 3: y.address, 4: H, 5: K, 6: P, 7: y.stride, 8: rank, 9: V}
    fields |= {10: plan.slot(path, "k"), 11: plan.slot(path, "v"), 22: latent.address, 23: latent.stride}
    fields |= {24: plan.address(mixer.k.weight), 25: plan.address(mixer.v.weight)}
    plan.emit(fields | norm | rotary_fields(plan, mixer.rotary), [mixer.scale, 0.0, eps])
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(CrossAttention)
def lower_cross(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    """Keys and values of the memory are in the state already."""
    assert isinstance(mixer, CrossAttention)
    q, y = plan.buffer(mixer.q.out_features), plan.buffer(mixer.q.out_features)
    plan.linear(source, [(mixer.q, q)])
    fields = {0: vm.CROSS, 1: q.address, 2: q.stride, 3: y.address, 4: mixer.heads, 6: mixer.head_width, 7: y.stride}
    slots = {10: plan.slot(path, "k"), 11: plan.slot(path, "v"), 12: plan.slot(path, "lengths")}
    plan.emit(fields | slots, [mixer.scale])
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(Parallel)
def lower_parallel(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    """All branches read the same input, so their sum is kept apart until the last has read it."""
    assert isinstance(mixer, Parallel)
    x = plan.normalise(source)
    total = plan.buffer(x.width)
    for number, (name, branch) in enumerate(mixer.branches.sublayers()):
        if branch.scale is not None:
            raise UnsupportedError("a learned scale of the branch")
        own, to = MixerInput(x, branch.norm_in), Sink(total, add=number > 0, weight=branch.weight)
        if isinstance(branch.norm_out, nn.Identity):
            lower_mixer(plan, branch.mixer, f"{path}/{name}", own, to)
        else:
            y = plan.buffer(x.width)
            lower_mixer(plan, branch.mixer, f"{path}/{name}", own, Sink(y))
            plan.norm(branch.norm_out, y, to)
    plan.norm(nn.Identity(), total, sink)
