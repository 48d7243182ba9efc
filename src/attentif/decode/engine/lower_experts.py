"""Fused steps of mixtures of experts: the matrices of experts that no row chose are not read."""

from attentif.decode.engine.lower import lower_activation, lower_mixer, lowers
from attentif.decode.engine.plan import Buffer, MixerInput, Plan, Sink, UnsupportedError, piece_size
from attentif.kernels.fused import program as vm
from attentif.nn.linear import StackedLinear
from attentif.nn.mixer import Recordable
from attentif.nn.mixers.experts import Experts


@lowers(Experts)
def lower_experts(plan: Plan, mixer: Recordable, path: str, source: MixerInput, sink: Sink) -> None:
    assert isinstance(mixer, Experts)
    config, choices = mixer.config, mixer.config.top_k
    if mixer.shared_gate is not None or config.weighs == "inputs":
        raise UnsupportedError("shared experts behind a gate, or experts of weighted inputs")
    activation = lower_activation(config.activation)
    x = plan.normalise(source)
    logits, routes = plan.buffer(config.experts), plan.buffer(2 * choices)
    plan.linear(MixerInput(x), [(mixer.router, logits)])
    fields = {0: vm.ROUTE, 1: logits.address, 2: logits.stride, 3: config.experts, 5: choices, 6: int(config.scores == "sigmoid")}
    fields |= {7: routes.address, 8: routes.stride, 9: int(config.normalised), 12: plan.address(mixer.choice_bias)}
    plan.emit(fields | {13: config.groups, 14: config.top_groups or 0, 15: config.group_best}, [config.scale])
    maps = [mixer.up] if mixer.gate is None else [mixer.gate, mixer.up]
    inner = plan.buffer(choices * mixer.up.weight.shape[1])
    _multiply(plan, x, maps, inner, routes, choices, activation=activation)
    y = plan.buffer(choices * x.width)
    _multiply(plan, inner, [mixer.out], y, routes, choices, each=True)
    target = {7: sink.buffer.address, 8: sink.buffer.stride, 9: int(sink.add)}
    fields = {0: vm.COMBINE, 1: y.address, 2: y.stride, 3: x.width, 4: routes.address, 5: routes.stride, 6: choices}
    plan.emit(fields | target, [0.0, sink.weight])
    if mixer.shared is not None:
        lower_mixer(plan, mixer.shared, path, MixerInput(x), Sink(sink.buffer, add=True, weight=sink.weight))


def _multiply(
    plan: Plan, x: Buffer, maps: list[StackedLinear], y: Buffer, routes: Buffer, choices: int, *, activation: int = 0, each: bool = False
) -> None:
    """The maps of the chosen experts; with two, the product of both. `each`: x has a part for each choice."""
    experts, outputs, inner = maps[0].weight.shape
    piece = piece_size([outputs], 4 * inner)
    fields = {0: vm.EXPERTS, 1: x.address, 2: x.stride, 3: inner, 7: len(maps), 9: activation, 10: piece, 11: choices}
    for number, stack in enumerate(maps):
        at = 12 + vm.MATRIX * number
        fields |= {at: plan.address(stack.weight), at + 2: plan.address(stack.bias), at + 3: outputs, at + 4: y.address, at + 5: y.stride}
    plan.emit(fields | {24: routes.address, 25: routes.stride, 26: experts, 27: int(each)})
