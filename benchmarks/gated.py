"""RWKV's WKV and Griffin's recurrent block against transformers, at equal shapes and weights."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from transformers import RecurrentGemmaConfig
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

from attentif.kernels.wkv import Runs, Sums, wkv
from attentif.lab.timing import interleave
from attentif.nn.mixer import Site
from attentif.nn.mixers.gated_recurrence import GatedRecurrenceConfig
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone

TITLE = "Gated recurrences"
ABOUT = """
Forward and backward in float32. WKV is the recurrence alone, with keys, values, decay and bonus given; transformers runs it on a CPU as a
loop over time. Griffin's recurrent block is whole: projections, short convolution, gates, RG-LRU. How these mixers grow with the
length, and what a decoding step costs, is in *Time against length*.
"""


def run(scale: Scale) -> Iterator[Result]:
    repeats = scale.pick(5, 2)  # transformers takes seconds a round
    for B, T, D in scale.pick(((2, 512, 768), (2, 1024, 512), (8, 256, 768)), ((1, 16, 8),)):
        yield wkv_passes(B, T, D, repeats)
    yield griffin_passes(*scale.pick((2, 512, 512), (1, 16, 16)), repeats)


def wkv_passes(B: int, T: int, D: int, repeats: int) -> Result:
    torch.manual_seed(0)
    decay, bonus = (torch.randn(D, requires_grad=True) for _ in range(2))
    k, v = (torch.randn(B, T, D, requires_grad=True) for _ in range(2))
    probe = torch.randn(B, T, D)
    runs = Runs(torch.arange(B) * T, torch.full((B,), T), T)

    def ours() -> Tensor:
        nothing = Sums.empty(B, D, device=k.device, dtype=k.dtype)
        y, _ = wkv(decay.exp(), bonus, k.view(-1, D), v.view(-1, D), nothing, runs)
        return y.view(B, T, D)

    def theirs() -> Tensor:
        y: Tensor = rwkv_linear_attention_cpu(decay, bonus, k, v)[0]
        return y

    wanted = [decay, bonus, k, v]
    timing = interleave({"attentif": there_and_back(ours, wanted, probe), "transformers": there_and_back(theirs, wanted, probe)}, repeats)
    return Result(f"WKV: {B} rows of {T} tokens, width {D}", timing, "transformers at least 20")


def griffin_passes(B: int, T: int, D: int, repeats: int) -> Result:
    torch.manual_seed(0)
    heads = 8 if D >= 64 else 2
    block = RecurrentGemmaRecurrentBlock(RecurrentGemmaConfig(hidden_size=D, lru_width=D, num_attention_heads=heads), 0)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=D**-0.5)
    mixer = GatedRecurrenceConfig(blocks=heads).build(Site(width=D))
    x, probe = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D)
    places, seq = torch.arange(T)[None].expand(B, -1), Seq.from_padded([T] * B)
    contestants = {
        "attentif": there_and_back(lambda: mixer(x, seq), [x, *mixer.parameters()], probe),
        "transformers": there_and_back(lambda: block(x, places, None, use_cache=False)[0], [x, *block.parameters()], probe),
    }
    return Result(f"Griffin's recurrent block: {B} rows of {T} tokens, width {D}", interleave(contestants, repeats))


def there_and_back(forward: Callable[[], Tensor], wanted: list[Tensor], probe: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(forward(), wanted, probe)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
