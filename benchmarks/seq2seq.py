"""Recurrent decoders with attention, and the memory that is read by nearest neighbours."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from attentif.kernels.nearest import nearest, nearest_gather
from attentif.lab.timing import interleave
from attentif.nn.mixer import Site
from attentif.nn.mixers.attentive import AttentiveConfig, AttentiveRecurrence
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone

TITLE = "Recurrent decoders with attention, and a memory of nearest neighbours"
ABOUT = """
Forward and backward of one decoder layer over a batch of targets (GRU, additive attention, the context fed to the cell), against the
loop that a tutorial writes with `torch.nn.GRUCell` and the same matrices: the memory projected once, everything else at every step. Then
the search and reading of 32 neighbours by the compiled kernel against `torch.topk` and a gather. None of the peers has either.
"""


def run(scale: Scale) -> Iterator[Result]:
    torch.manual_seed(0)
    yield decoder(*scale.pick((32, 30, 30, 256), (2, 3, 4, 8)), scale.repeats)
    yield neighbours(*scale.pick((2, 8, 128, 2048, 64, 32), (1, 2, 4, 16, 8, 4)), scale.repeats)


class Tutorial(nn.Module):
    """The same decoder, a step at a time: attend, join, step, read out."""

    def __init__(self, mixer: AttentiveRecurrence, width: int) -> None:
        super().__init__()
        self.mixer, self.cell = mixer, nn.GRUCell(2 * width, width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        score, outputs = self.mixer.score, []
        keys, s = score.k(memory), memory.new_zeros(len(memory), self.cell.hidden_size)
        for t in range(x.shape[1]):
            weights = (torch.tanh(score.q(s)[:, None] + keys) @ score.v).softmax(-1)
            context = (weights[:, None] @ memory).squeeze(1)
            s = self.cell(torch.cat([x[:, t], context], -1), s)
            outputs.append(torch.tanh(self.mixer.out(torch.cat([context, s], -1))))
        return torch.stack(outputs, 1)


def decoder(B: int, T: int, S: int, D: int, repeats: int) -> Result:
    mixer = AttentiveConfig().build(Site(width=D, memory_width=D))
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=D**-0.5)
    theirs = Tutorial(mixer, D)
    x, memory = torch.randn(B, T, D, requires_grad=True), torch.randn(B, S, D, requires_grad=True)
    seq, memory_seq = Seq.from_padded([T] * B), Seq.from_padded([S] * B)
    contestants = {
        "attentif": both_ways(lambda: mixer(x, seq, memory, memory_seq), x, memory, *mixer.parameters()),
        "a loop over torch.nn.GRUCell": both_ways(lambda: theirs(x, memory), x, memory, *theirs.parameters()),
    }
    return Result(f"decoder layer: {B} targets of {T}, sources of {S}, width {D}", interleave(contestants, repeats))


def neighbours(B: int, H: int, T: int, S: int, K: int, top: int, repeats: int) -> Result:
    q = torch.randn(B, H, T, K, requires_grad=True)
    k, v, allowed = torch.randn(B, H, S, K), torch.randn(B, H, S, K), torch.ones(1, 1, T, S, dtype=torch.bool)
    forms = {"attentif": nearest, "torch.topk and a gather": nearest_gather}
    contestants = {name: both_ways(lambda form=form: form(q, k, v, allowed, scale=K**-0.5, top=top), q) for name, form in forms.items()}
    return Result(f"{top} nearest of {S}: {B} rows, {H} heads of {K}, {T} queries", interleave(contestants, repeats))


def both_ways(call: Callable[[], Tensor], *inputs: Tensor) -> Callable[[], object]:
    """Forward and backward; what is not used has no gradient."""
    return lambda: torch.autograd.grad(call().square().mean(), inputs, allow_unused=True)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
