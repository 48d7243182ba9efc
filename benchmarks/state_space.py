"""The selective scan against mambapy's, and whole Mamba and Mamba-2 layers against transformers' on a CPU, at equal shapes."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from mambapy.pscan import pscan
from torch import Tensor
from transformers import Mamba2Config, MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from attentif.kernels.selective_scan import selective_scan
from attentif.lab.timing import interleave
from attentif.nn.mixer import MixerConfig, Site
from attentif.nn.mixers.mamba import MambaConfig as OwnMambaConfig
from attentif.nn.mixers.mamba2 import Mamba2Config as OwnMamba2Config
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone
from benchmarks.gated import there_and_back

TITLE = "State spaces"
ABOUT = """
Forward and backward in float32. The scan is alone, with step sizes and what is written and read given; mambapy's is the parallel scan of
its `pscan`, with the products around it. A layer is whole: projections, short convolution, scan, gate. transformers has two ways on a CPU:
`use_mambapy=True`, and by default a Python loop over time. The allocator is left as it is: the peers hold (B, T, D, N) buffers and spend
much of their time on page faults; told to keep its memory (as `attentif train` tells it), glibc makes them about twice as fast.
How these mixers grow with the length, and what a decoding step costs, is in *Time against length*.
"""


def run(scale: Scale) -> Iterator[Result]:
    yield scans(*scale.pick((2, 2048, 512, 16), (1, 16, 8, 4)), scale.pick(7, 2))
    yield mamba_layers(*scale.pick((2, 512, 256), (1, 16, 16)), scale.pick(15, 2), use_mambapy=True)
    yield mamba2_layers(*scale.pick((2, 512, 256), (1, 16, 32)), scale.pick(7, 2))
    yield mamba_layers(*scale.pick((2, 512, 256), (1, 16, 16)), scale.pick(3, 2), use_mambapy=False)


def scans(B: int, T: int, D: int, S: int, repeats: int) -> Result:
    torch.manual_seed(0)
    x, delta = torch.randn(B, T, D), torch.nn.functional.softplus(torch.randn(B, T, D) - 3)
    A = -torch.arange(1.0, S + 1).repeat(D, 1)
    write, read, skip, probe = torch.randn(B, T, S), torch.randn(B, T, S), torch.ones(D), torch.randn(B, T, D)
    inputs = [t.requires_grad_() for t in (x, delta, A, write, read, skip)]
    empty, first, lengths = torch.zeros(B, S, D), torch.arange(B) * T, torch.full((B,), T)

    def ours() -> Tensor:
        x_, delta_, write_, read_ = (t.flatten(0, 1) for t in (x, delta, write, read))
        y, _ = selective_scan(x_, delta_, A, write_, read_, skip, empty, first, lengths)
        return y.view(B, T, D)

    def theirs() -> Tensor:
        states = pscan(torch.exp(delta[..., None] * A), delta[..., None] * write[:, :, None] * x[..., None])
        y: Tensor = (states @ read[..., None]).squeeze(3) + skip * x
        return y

    contestants = {"attentif": there_and_back(ours, inputs, probe), "mambapy": there_and_back(theirs, inputs, probe)}
    case = f"selective scan: {B} rows of {T} tokens, width {D}, state {S}"
    return Result(case, interleave(contestants, repeats), "mambapy at least 20")


def mamba_layers(B: int, T: int, D: int, repeats: int, *, use_mambapy: bool) -> Result:
    """The default path has a table of its own: the many small buffers of its loop slow down whoever comes next in the same process."""
    way = "use_mambapy=True" if use_mambapy else "by default"
    peers = {f"transformers, {way}": MambaMixer(MambaConfig(hidden_size=D, use_mambapy=use_mambapy), 0)}
    contestants = layers(OwnMambaConfig(), peers, B, T, D)
    goal = "transformers at least 10" if use_mambapy else ""
    return Result(f"a Mamba layer: {B} rows of {T} tokens, width {D}", interleave(contestants, repeats), goal)


def mamba2_layers(B: int, T: int, D: int, repeats: int) -> Result:
    config = Mamba2Config(hidden_size=D, num_heads=2 * D // 32, head_dim=32, state_size=64, n_groups=1)
    peers = {"transformers": Mamba2Mixer(config, 0)}
    contestants = layers(OwnMamba2Config(head_width=32, state=64), peers, B, T, D)
    return Result(f"a Mamba-2 layer: {B} rows of {T} tokens, width {D}, state 64", interleave(contestants, repeats))


def layers(config: MixerConfig, peers: Mapping[str, torch.nn.Module], B: int, T: int, D: int) -> dict[str, Callable[[], object]]:
    """Ours and the peers' on the same input; weights are the initial ones of each, which changes no operation."""
    torch.manual_seed(0)
    mixer, seq = config.build(Site(width=D)).train(), Seq.from_padded([T] * B)
    x, probe = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D)
    contestants: dict[str, Callable[[], object]] = {
        "attentif": there_and_back(partial(mixer, x, seq), [x, *mixer.parameters()], probe),
    }
    for name, peer in peers.items():
        for parameter in peer.parameters():  # some are left as they lay in memory
            torch.nn.init.normal_(parameter, std=0.05)
        contestants[name] = there_and_back(partial(peer, x), [x, *peer.parameters()], probe)
    return contestants


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
