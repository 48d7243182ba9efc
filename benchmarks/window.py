"""Attention over a part of the keys against attention over all of them: time, memory, and how both grow."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

from attentif.lab.fit import power_law
from attentif.lab.machine import measures_memory, peak_bytes
from attentif.lab.timing import interleave
from attentif.nn.mixer import Site
from attentif.nn.mixers import Attention, AttentionConfig
from attentif.nn.pattern import GlobalPattern, PatternConfig, RandomPattern, WindowPattern
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone, format_seconds

TITLE = "Window, global and random attention"
ABOUT = """
One row, 4 heads of 64 components, float32: forward and backward of the attention itself, without projections. The peer is
`F.scaled_dot_product_attention` over all keys, which on a CPU is a fused kernel that never holds the (T, S) matrix. The patterns see
256 tokens each side (or 256 back), or BigBird's blocks of 64: three neighbours, three random ones, the first and the last.
Memory is what a process of its own holds at its peak during one forward and backward pass, above what it held before.
"""
HEADS, WIDTH, SIDE = 4, 256, 256
Form = tuple[bool, tuple[PatternConfig, ...]]
WINDOW: Form = (False, (WindowPattern(left=SIDE, right=SIDE),))
BACK: Form = (True, (WindowPattern(left=SIDE),))
LONGFORMER: Form = (False, (WindowPattern(left=SIDE, right=SIDE), GlobalPattern(first=1)))
BIGBIRD: Form = (False, (WindowPattern(left=1, right=1, block=64), GlobalPattern(first=64, last=64), RandomPattern(blocks=3, block=64)))
FORMS = {"window": WINDOW, "causal window": BACK, "window and a global token": LONGFORMER, "BigBird's blocks": BIGBIRD}


def run(scale: Scale) -> Iterator[Result | str]:
    n = scale.pick(8192, 1536)
    for causal, names, goal in ((False, ["window", "window and a global token", "BigBird's blocks"], 8), (True, ["causal window"], 4)):
        contestants = {name: sparse(n, *FORMS[name]) for name in names} | {"all keys (SDPA)": full(n, causal)}
        case = f"{'causal' if causal else 'both ways'}, {n} tokens"
        yield Result(case, interleave(contestants, scale.repeats), f"all keys at least {goal} times the window")
    lengths = scale.pick((2048, 4096, 8192, 16384), (1536, 3072))
    yield growth(lengths, scale.repeats)
    yield memory(scale.pick((4096, 8192, 16384), (1536, 3072)))
    yield steps(scale)


def tensors(n: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, n, HEADS, WIDTH // HEADS).requires_grad_() for _ in "qkv"]


def mixer(causal: bool, pattern: tuple[PatternConfig, ...]) -> Attention:
    return AttentionConfig(heads=HEADS, causal=causal, pattern=pattern).build(Site(width=WIDTH))


def sparse(n: int, causal: bool, pattern: tuple[PatternConfig, ...]) -> Callable[[], object]:
    attention, seq, x = mixer(causal, pattern), Seq.from_padded([n]), tensors(n)
    assert attention.sparse.pays(n)

    def step() -> object:
        q, k, v = (t.transpose(1, 2) for t in x)
        y = attention.attend(q, k, v, seq)
        return torch.autograd.grad(y.sum(), x)

    return step


def full(n: int, causal: bool) -> Callable[[], object]:
    x = tensors(n)

    def step() -> object:
        q, k, v = (t.transpose(1, 2) for t in x)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return torch.autograd.grad(y.sum(), x)

    return step


def growth(lengths: tuple[int, ...], repeats: int) -> str:
    """Time by length, and the exponent that fits it best."""
    lines = ["**time by length** (goal: exponent at most 1.15)", "", f"| | {' | '.join(map(str, lengths))} | exponent |"]
    lines.append("|---|" + "---:|" * (len(lengths) + 1))
    for name, form in FORMS.items():
        timing = interleave({str(n): sparse(n, *form) for n in lengths}, repeats)
        medians = [timing.median(str(n)) for n in lengths]
        cells = " | ".join(format_seconds(seconds) for seconds in medians)
        lines.append(f"| {name} | {cells} | {power_law(lengths, medians).exponent:.2f} |")
    return "\n".join(lines)


def memory(lengths: tuple[int, ...]) -> str:
    """Peak memory by length, each in a process of its own, and the exponent."""
    if not measures_memory():
        return "Memory is measured on Linux only."
    lines = ["**memory by length** (goal: exponent about 1)", "", f"| | {' | '.join(map(str, lengths))} | exponent |"]
    lines.append("|---|" + "---:|" * (len(lengths) + 1))
    for name in FORMS:
        peaks = [measure_peak(name, n) for n in lengths]
        cells = " | ".join(f"{size / 2**20:.0f} MB" for size in peaks)
        lines.append(f"| {name} | {cells} | {power_law(lengths, peaks).exponent:.2f} |")
    return "\n".join(lines)


def measure_peak(name: str, n: int) -> float:
    call = f"from benchmarks.window import peak; print(peak({name!r}, {n}))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


def peak(name: str, n: int) -> float:
    """Bytes held at the peak of one forward and backward pass, above those held before it; run in a fresh process."""
    return float(peak_bytes(sparse(n, *FORMS[name])) or math.nan)


@torch.no_grad()
def steps(scale: Scale) -> Result:
    """One token after many: the window's state holds no more than the window."""
    places = scale.pick((300, 100_000), (300, 3000))
    attention = mixer(*BACK)
    state = attention.init_state(1, max(places) + 1, device=torch.device("cpu"), dtype=torch.float32)
    x = torch.randn(1, 1, WIDTH)

    def step(place: int) -> None:
        for number in range(20):
            attention(x, Seq.from_padded([1], start=place - number), state)

    timing = interleave({f"after {place} tokens": partial(step, place) for place in places}, scale.repeats)
    return Result(f"20 decoding steps of a layer that sees {SIDE} back", timing, "the same time")


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
