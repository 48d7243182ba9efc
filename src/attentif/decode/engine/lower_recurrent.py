"""Fused steps of recurrences, channel by channel: LSTM, GRU, Mamba, RWKV-4."""

import torch
from torch import Tensor, nn

from attentif.decode.engine.lower import lowers
from attentif.decode.engine.plan import Buffer, Matrix, MixerInput, Plan, Sink, UnsupportedError
from attentif.kernels.fused import program as vm
from attentif.kernels.fused.products import RELU_SQUARED, SIGMOID, SOFTPLUS
from attentif.kernels.fused.recur import GRU as GRU_CELL
from attentif.kernels.fused.recur import LSTM as LSTM_CELL
from attentif.nn.mixer import Recordable
from attentif.nn.mixers.gru import GRU
from attentif.nn.mixers.lstm import LSTM
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.rwkv import ChannelMix, TimeMix


@lowers(LSTM)
@lowers(GRU)
def lower_cell(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, LSTM | GRU)
    size = mixer.hidden
    held, given, ours, y = plan.buffer(size), plan.buffer(mixer.gates * size), plan.buffer(mixer.gates * size), plan.buffer(size)
    h = plan.slot(path, "h")
    plan.emit({0: vm.GATHER, 1: held.address, 2: held.stride, 3: size, 10: h})
    plan.linear(source, [(mixer.x, given)])
    plan.linear(MixerInput(held), [(Matrix(mixer.w_h), ours)])
    if isinstance(mixer, LSTM):
        extra, cell, kind = plan.address(mixer.peepholes), plan.slot(path, "c"), LSTM_CELL
    else:
        extra, cell, kind = plan.address(mixer.b_h), h, GRU_CELL
    fields = {0: vm.CELL, 1: given.address, 2: given.stride, 3: size, 4: kind, 5: ours.address, 6: ours.stride}
    plan.emit(fields | {7: y.address, 8: y.stride, 9: extra, 10: h, 11: cell})
    if mixer.out is None:
        plan.norm(nn.Identity(), y, sink)
    else:
        plan.project(MixerInput(y), mixer.out, sink)


@lowers(Mamba)
def lower_mamba(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, Mamba)
    if mixer.norms is not None:
        raise UnsupportedError("normalised step sizes")
    E, S, rank = mixer.inner, mixer.config.state, mixer.rank
    u, z, v, delta, y = (plan.buffer(E) for _ in range(5))
    chosen = plan.buffer(rank + 2 * S)
    plan.linear(source, [(mixer.inp, u), (mixer.gate, z)])
    taps = plan.address(mixer.conv.detach().T.contiguous())
    fields = {0: vm.CONV, 1: u.address, 2: u.stride, 3: E, 4: taps, 5: plan.address(mixer.conv_bias), 6: mixer.config.conv}
    plan.emit(fields | {7: v.address, 8: v.stride, 10: plan.slot(path, "tail")})
    plan.linear(MixerInput(v), [(mixer.select, chosen)])
    plan.linear(MixerInput(chosen.part(0, rank)), [(mixer.step, delta)], activation=SOFTPLUS)
    rates = plan.address(-torch.exp(mixer.A_log.detach()).T.contiguous())
    fields = {0: vm.SCAN, 1: v.address, 2: v.stride, 3: E, 4: rates, 5: plan.address(mixer.D), 6: S, 7: delta.address, 8: delta.stride}
    fields |= {9: z.address, 10: plan.slot(path, "h"), 11: z.stride}
    both = chosen.part(rank, rank + 2 * S)
    plan.emit(fields | {12: both.address, 13: both.stride, 14: y.address, 15: y.stride})
    plan.project(MixerInput(y), mixer.out, sink)


def lower_shift(plan: Plan, path: str, source: MixerInput, shares: list[Tensor]) -> list[Buffer]:
    """The input mixed with the token before, once for each of the shares."""
    x = source.buffer
    if not isinstance(source.norm, nn.Identity):
        x = plan.buffer(x.width)
        plan.norm(source.norm, source.buffer, Sink(x))
    mixed = [plan.buffer(x.width) for _ in shares]
    fields = {0: vm.SHIFT, 1: x.address, 2: x.stride, 3: x.width, 4: len(shares), 10: plan.slot(path, "last")}
    for number, (share, target) in enumerate(zip(shares, mixed, strict=True)):
        fields |= {12 + 3 * number: plan.address(share), 13 + 3 * number: target.address, 14 + 3 * number: target.stride}
    plan.emit(fields)
    return mixed


@lowers(TimeMix)
def lower_time_mix(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, TimeMix)
    of_k, of_v, of_r = lower_shift(plan, path, source, [mixer.mix_k, mixer.mix_v, mixer.mix_r])
    k, v, r, y = (plan.buffer(mixer.hidden) for _ in range(4))
    plan.linear(MixerInput(of_k), [(mixer.k, k)])
    plan.linear(MixerInput(of_v), [(mixer.v, v)])
    plan.linear(MixerInput(of_r), [(mixer.r, r)], activation=SIGMOID)
    decay = plan.address(mixer.decay.detach().exp())
    fields = {0: vm.WKV, 1: k.address, 2: k.stride, 3: mixer.hidden, 4: decay, 5: plan.address(mixer.bonus), 6: v.address, 7: v.stride}
    slots = {10 + number: plan.slot(path, name) for number, name in enumerate(("p", "q", "o"))}
    plan.emit(fields | {8: r.address, 9: r.stride, 13: y.address, 14: y.stride} | slots)
    plan.project(MixerInput(y), mixer.out, sink)


@lowers(ChannelMix)
def lower_channel_mix(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, ChannelMix)
    of_k, *of_r = lower_shift(plan, path, source, [mixer.mix_k] if mixer.r is None else [mixer.mix_k, mixer.mix_r])
    inner = plan.buffer(mixer.k.out_features)
    plan.linear(MixerInput(of_k), [(mixer.k, inner)], activation=RELU_SQUARED)
    if mixer.r is None:
        plan.project(MixerInput(inner), mixer.out, sink)
        return
    r, y = plan.buffer(of_k.width), plan.buffer(of_k.width)
    plan.linear(MixerInput(of_r[0]), [(mixer.r, r)], activation=SIGMOID)
    plan.project(MixerInput(inner), mixer.out, Sink(y))
    fields = {
        0: vm.MULTIPLY,
        1: r.address,
        2: r.stride,
        3: y.width,
        4: y.address,
        5: y.stride,
        7: sink.buffer.address,
        8: sink.buffer.stride,
    }
    plan.emit(fields | {9: int(sink.add)}, [0.0, sink.weight])
