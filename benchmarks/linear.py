"""Linear, random-feature and gated linear attention against softmax attention and against other people's layers."""

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import attentif.models  # noqa: F401  registers every mixer
from attentif.lab.fit import power_law
from attentif.lab.machine import peak_bytes
from attentif.lab.timing import interleave
from attentif.nn.mixer import MIXERS, Mixer, Site
from attentif.nn.seq import Seq
from benchmarks.common import Result, Scale, alone

with warnings.catch_warnings():  # they use what Python and torch have deprecated since
    warnings.simplefilter("ignore")
    from linear_attention_transformer.linear_attention_transformer import SelfAttention as TheirLinear
    from performer_pytorch.performer_pytorch import SelfAttention as TheirPerformer

TITLE = "Linear attention"
ABOUT = """
Forward and backward of a whole layer (projections included) of width 512 with 8 heads on one row, in float32. The first tables set it
beside Attentif's own softmax attention, torch's fused kernel, over short and long rows. The peers of the others are layers of the same
sizes: linear-attention-transformer's (softmax and exp features on both sides) and performer-pytorch's (256 random features on both
sides); on a CPU the causal forms of both hold a state for every token. Memory is what a process of its own holds at its peak during one
forward and backward pass, above what it held before. How time grows with length, and what a decoding step costs, is in *Time against
length*.
"""
WIDTH, HEADS, FEATURES = 512, 8, 256
CAUSAL: dict[str, dict[str, Any]] = {
    "attention": {"kind": "attention", "heads": HEADS, "causal": True},
    "linear": {"kind": "linear", "heads": HEADS, "causal": True},
    "performer": {"kind": "performer", "heads": HEADS, "causal": True, "features": FEATURES},
    "gated-linear": {"kind": "gated-linear", "heads": HEADS},
    "latent": {"kind": "latent", "heads": HEADS, "kv_rank": 128, "rotary_width": 32},
}
BOTH_WAYS: dict[str, dict[str, Any]] = {
    "attention": {"kind": "attention", "heads": HEADS},
    "linear": {"kind": "linear", "heads": HEADS},
    "performer": {"kind": "performer", "heads": HEADS, "features": FEATURES},
    "linformer": {"kind": "linformer", "heads": HEADS, "max_len": 16384, "rank": 256},
}


def run(scale: Scale) -> Iterator[Result | str]:
    repeats = scale.pick(5, 2)
    for way, forms in (("causal", CAUSAL), ("both ways", BOTH_WAYS)):
        for T in scale.pick((512, 2048, 8192, 16384), (32, 64)):
            yield Result(f"{way}, {T:,} tokens", interleave({name: step(build_mixer(form), T) for name, form in forms.items()}, repeats))
    for causal in (True, False):
        T = scale.pick(2048 if causal else 8192, 32)
        yield against_linear(causal, T, repeats)
        yield against_performer(causal, T, repeats)
    yield memory(scale.pick((4096, 8192, 16384), (2048, 4096)))


def build_mixer(values: dict[str, Any]) -> Mixer:
    torch.manual_seed(0)
    mixer = MIXERS[values["kind"]].model_validate(values).build(Site(width=WIDTH))
    assert isinstance(mixer, Mixer)
    return mixer.train()


def step(mixer: Mixer, T: int) -> Callable[[], None]:
    return partial(there_and_back, mixer, partial(mixer, seq=Seq.from_padded([T])), torch.randn(1, T, WIDTH).requires_grad_())


def their_step(layer: nn.Module, T: int) -> Callable[[], None]:
    return partial(there_and_back, layer, layer, torch.randn(1, T, WIDTH).requires_grad_())


def there_and_back(module: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    call(x).sum().backward()
    module.zero_grad()
    x.grad = None


def against_linear(causal: bool, T: int, repeats: int) -> Result:
    form = {"kind": "linear", "heads": HEADS, "causal": causal, "features": "softmax", "bias": False}
    mixer = build_mixer(form | ({} if causal else {"normalise": "feature"}))
    contestants = {"attentif": step(mixer, T), "linear-attention-transformer": their_step(TheirLinear(WIDTH, HEADS, causal=causal), T)}
    return Result(f"linear, {'causal' if causal else 'both ways'}, {T:,} tokens", interleave(contestants, repeats))


def against_performer(causal: bool, T: int, repeats: int) -> Result:
    mixer = build_mixer({"kind": "performer", "heads": HEADS, "causal": causal, "features": FEATURES, "bias": False})
    with redirect_stdout(StringIO()):  # it says that it found no CUDA code
        layer = TheirPerformer(WIDTH, heads=HEADS, dim_head=WIDTH // HEADS, causal=causal, nb_features=FEATURES)
    contestants = {"attentif": step(mixer, T), "performer-pytorch": their_step(layer, T)}
    return Result(f"performer, {'causal' if causal else 'both ways'}, {T:,} tokens", interleave(contestants, repeats))


def memory(lengths: tuple[int, ...]) -> str:
    """Peak memory by length, each in a process of its own, and the exponent."""
    lines = ["**memory by length** (goal: exponent about 1)", "", f"| | {' | '.join(f'{n:,}' for n in lengths)} | exponent |"]
    lines.append("|---|" + "---:|" * (len(lengths) + 1))
    forms = {f"{name}, causal": form for name, form in CAUSAL.items()} | {f"{name}, both ways": form for name, form in BOTH_WAYS.items()}
    for name, form in forms.items():
        held = [measure_peak(form, n) for n in lengths]
        cells = " | ".join(f"{bytes_ / 2**20:.0f} MB" for bytes_ in held)
        lines.append(f"| {name} | {cells} | {power_law(lengths, held).exponent:.2f} |")
    return "\n".join(lines)


def measure_peak(form: dict[str, Any], n: int) -> float:
    call = f"from benchmarks.linear import peak; print(peak({form!r}, {n}))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return max(float(done.stdout), 1.0)


def peak(form: dict[str, Any], n: int) -> float:
    """Bytes held at the peak of one forward and backward pass, above those held before it; run in a fresh process."""
    mixer = build_mixer(form)
    step(mixer, 16)()  # what is compiled or imported at the first call is no part of it
    run_once = step(mixer, n)
    return float(peak_bytes(run_once) or math.nan)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
