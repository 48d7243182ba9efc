"""Recurrent layers against torch.nn's, at equal shapes: one layer, whole sequences."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from attentif.lab.timing import interleave
from attentif.nn.mixer import MixerConfig, Site
from attentif.nn.mixers.bidirectional import BidirectionalConfig
from attentif.nn.mixers.gru import GRUConfig
from attentif.nn.mixers.lstm import LSTMConfig
from attentif.nn.mixers.rnn import RNNConfig
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone

TITLE = "Recurrent layers"
ABOUT = """
Forward and backward of one layer in float32, the gradient of its input included; torch.nn has `batch_first=True`. The *ragged* batch has
rows of a quarter of the width to the whole of it: Attentif reads it padded, or packed as its tasks do; torch.nn as a
`PackedSequence`. How these mixers grow with the length, and what a decoding step costs, is in *Time against length*.
"""
SHAPES = ((32, 128, 256), (8, 512, 256), (64, 64, 512))
PLAIN, PEEPHOLES = "attentif", "attentif, peepholes"
Contestants = Mapping[str, Callable[[], object]]


def run(scale: Scale) -> Iterator[Result]:
    for B, T, D in scale.pick(SHAPES, ((3, 8, 16),)):
        sizes = f"{B} rows of {T} tokens, width {D}"
        lstm = passes(nn.LSTM, {PLAIN: LSTMConfig(), PEEPHOLES: LSTMConfig(peepholes=True)}, B, T, D)
        goal = "torch.nn at least 1.0, peepholes at most 1.3"
        yield Result(f"LSTM: {sizes}", interleave(lstm, scale.repeats), goal)
        yield Result(f"GRU: {sizes}", interleave(passes(nn.GRU, {PLAIN: GRUConfig()}, B, T, D), scale.repeats), "torch.nn at least 1.0")
        yield Result(f"RNN (tanh): {sizes}", interleave(passes(nn.RNN, {PLAIN: RNNConfig()}, B, T, D), scale.repeats))
    B, T, D = scale.pick(SHAPES[0], (3, 8, 16))
    yield Result(f"LSTM, ragged: {B} rows of {T // 4} to {T} tokens, width {D}", interleave(make_ragged_passes(B, T, D), scale.repeats))
    both = {PLAIN: BidirectionalConfig()}
    yield Result(
        f"LSTM, both directions: {B} rows of {T} tokens, {D // 2} units each way",
        interleave(passes(nn.LSTM, both, B, T, D, hidden=D // 2, bidirectional=True), scale.repeats),
    )


def passes(
    theirs: type[nn.RNNBase],
    ours: Mapping[str, MixerConfig],
    B: int,
    T: int,
    D: int,
    hidden: int | None = None,
    bidirectional: bool = False,
) -> Contestants:
    torch.manual_seed(0)
    x, probe, seq = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D), Seq.from_padded([T] * B)
    contestants: dict[str, Callable[[], object]] = {}
    for name, config in ours.items():
        mixer = config.build(Site(width=D))
        contestants[name] = there_and_back(mixer, lambda mixer=mixer: mixer(x, seq), x, probe)
    peer = theirs(D, hidden or D, batch_first=True, bidirectional=bidirectional)
    return contestants | {"torch.nn": there_and_back(peer, lambda: peer(x)[0], x, probe)}


def make_ragged_passes(B: int, T: int, D: int) -> Contestants:
    torch.manual_seed(0)
    lengths = torch.linspace(T // 4, T, B).long()[torch.randperm(B)]
    padded, packed = Seq.from_padded(lengths, T), Seq.from_packed(lengths)
    x, probe = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D)
    ends, ends_probe = x.detach()[padded.valid].requires_grad_(), probe[padded.valid]
    mixer, peer = LSTMConfig().build(Site(width=D)), nn.LSTM(D, D, batch_first=True)
    order = lengths.argsort(descending=True)
    theirs = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order], batch_first=True)
    data = theirs.data.detach().requires_grad_()

    def read_theirs() -> Tensor:
        y: Tensor = peer(nn.utils.rnn.PackedSequence(data, theirs.batch_sizes))[0].data
        return y

    return {
        "attentif, packed": there_and_back(mixer, lambda: mixer(ends, packed), ends, ends_probe),
        "attentif, padded": there_and_back(mixer, lambda: mixer(x, padded), x, probe),
        "torch.nn": there_and_back(peer, read_theirs, data, torch.randn_like(data)),
    }


def there_and_back(layer: nn.Module, forward: Callable[[], Tensor], x: Tensor, probe: Tensor) -> Callable[[], object]:
    wanted = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(forward(), wanted, probe)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
