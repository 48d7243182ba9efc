"""Time against length for every mixer there is, and what a decoding step costs after few and after many tokens.

Mixers are found in the registry, so that a new one is measured without a line here; `SETTINGS` holds what their defaults do not say.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import attentif.models  # noqa: F401  registers every mixer
from attentif.errors import AttentifError
from attentif.nn.mixer import MIXERS, Mixer, MixerConfig, Site
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree
from attentif.train.machine import keep_buffers
from benchmarks.common import Ratio, Scale, Timing, alone, interleave, spoken

TITLE = "Time against length"
ABOUT = """
Forward and backward of one mixer of width 256 on one row, in float32, with memory kept between steps as training keeps it. The exponent
is the slope of log time against log length from 2,048 tokens on, fitted in every round: its median, the quartiles in brackets; 1 is
linear, 2 quadratic. Lengths run in turns, and a length that would take longer than the time limit is left out. The second table is a
decoding step of the mixers that keep a state of bounded size: each row is read 100 and 100,000 tokens far, then both go on in turns.
"""
WIDTH, FITTED_FROM, LIMIT = 256, 2048, 4.0  # LIMIT: seconds that one forward and backward may take
LINEAR, BY_FFT = 1.15, 1.5  # largest exponents
FFT = ("s4", "gated-conv")
LEFT_OUT = {"parallel": "made of other mixers", "feed-forward": "reads no neighbour", "experts": "reads no neighbour"}
WINDOW = {"kind": "window", "left": 256}
SETTINGS: Mapping[str, Sequence[Mapping[str, Any]]] = {  # variants measured besides the default ones
    "attention": ({"causal": True, "pattern": [WINDOW]}, {"causal": False, "pattern": [WINDOW | {"right": 256}]}),
    "gated-recurrence": ({"form": "min-gru"},),
}


@dataclass(frozen=True)
class Variant:
    """A mixer to be measured."""

    name: str
    config: MixerConfig

    def build(self) -> Mixer:
        torch.manual_seed(0)
        mixer = self.config.build(Site(width=WIDTH))
        assert isinstance(mixer, Mixer)
        return mixer

    @property
    def goal(self) -> float:
        cost, _, narrow = self.config.cost.partition(";")  # "T²; T·w with a pattern": after the semicolon, with what `SETTINGS` gives
        cost = narrow if narrow and "pattern" in self.config.model_fields_set else cost
        return math.inf if "²" in cost else BY_FFT if self.config.kind in FFT else LINEAR


def variants(longest: int) -> Iterator[Variant | str]:
    """Every kind, causal and not where there is a choice; a plain string says why one is left out."""
    for kind in MIXERS:
        if kind in LEFT_OUT:
            yield f"{kind} ({LEFT_OUT[kind]})"
            continue
        fields = MIXERS[kind].model_fields
        choices: list[Mapping[str, Any]] = [{"causal": True}, {"causal": False}] if "causal" in fields else [{}]
        for values in [*choices, *SETTINGS.get(kind, ())]:
            fixed = {"max_len": longest} if "max_len" in fields else {}
            try:
                variant = Variant(named(kind, values), MIXERS[kind].model_validate({"kind": kind} | fixed | dict(values)))
                mixer = variant.config.build(Site(width=WIDTH, memory_width=WIDTH))
            except (AttentifError, ValueError) as error:
                yield f"{named(kind, values)} ({str(error).splitlines()[0]})"
                continue
            yield variant if isinstance(mixer, Mixer) else f"{variant.name} (reads a memory, which has a length of its own)"


def named(kind: str, values: Mapping[str, Any]) -> str:
    words = [kind]
    if "causal" in values:
        words.append("causal" if values["causal"] else "both ways")
    words += ["window 256"] * ("pattern" in values)
    return ", ".join([*words, *(str(value) for key, value in values.items() if key not in ("causal", "pattern"))])


def run(scale: Scale) -> Iterator[str]:
    keep_buffers()
    lengths = scale.pick((512, 1024, 2048, 4096, 8192, 16384), (16, 32, 64))
    found = list(variants(max(lengths)))
    measured = [variant for variant in found if isinstance(variant, Variant)]
    rows = [length_row(variant, lengths, scale) for variant in measured]
    heads = ["mixer", "cost", *(f"{length:,}" for length in lengths), "exponent", "goal"]
    yield table(heads, rows)
    after = scale.pick((100, 100_000), (10, 100))
    steps = [row for variant in measured if (row := decoding_row(variant, after, scale))]
    yield table(["decoding a token", *(f"after {tokens:,}" for tokens in after), "ratio"], steps)
    if reasons := [reason for reason in found if isinstance(reason, str)]:
        yield "Left out: " + "; ".join(reasons) + "."


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def length_row(variant: Variant, lengths: Sequence[int], scale: Scale) -> list[str]:
    mixer = variant.build().train()
    jobs = {length: training_pass(mixer, length) for length in lengths}
    known: dict[int, float] = {}
    jobs[lengths[0]]()  # compiles what must be compiled
    for length in lengths:  # a first look
        if expected(known, length) > LIMIT:
            break
        begin = time.perf_counter()
        jobs[length]()
        known[length] = time.perf_counter() - begin
    timing = interleave({str(length): jobs[length] for length in known}, repeats=scale.pick(5, 2), warmup=0)
    times = [spoken(timing.median(str(length))) if length in known else "" for length in lengths]
    slope = exponent(timing, [length for length in known if length >= scale.pick(FITTED_FROM, 16)])
    goal = "" if math.isinf(variant.goal) else f"at most {variant.goal}"
    return [variant.name, variant.config.cost, *times, str(slope or ""), goal]


def expected(known: Mapping[int, float], length: int) -> float:
    """Seconds that a length will take if the last doubling is any guide."""
    if len(known) < 2:
        return 0.0
    (_, before), (last, now) = list(known.items())[-2:]
    return now * max(now / before, 1.0) ** math.log2(length / last)


def training_pass(mixer: Mixer, length: int) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    x, probe = (torch.randn(1, length, WIDTH, generator=generator) for _ in range(2))
    seq = Seq.padded([length])
    x.requires_grad_()

    def run_once() -> None:
        mixer(x, seq).backward(probe)
        mixer.zero_grad()
        x.grad = None

    return run_once


def exponent(timing: Timing, lengths: Sequence[int]) -> Ratio | None:
    """The slope in every round: median and quartiles."""
    if len(lengths) < 2:
        return None
    rounds = len(timing.seconds[str(lengths[0])])
    slopes = []
    for number in range(rounds):
        seconds = [timing.seconds[str(length)][number] for length in lengths]
        slopes.append(statistics.linear_regression([math.log(n) for n in lengths], [math.log(s) for s in seconds]).slope)
    low, _, high = statistics.quantiles(slopes, n=4, method="inclusive")
    return Ratio(statistics.median(slopes), low, high)


def decoding_row(variant: Variant, after: Sequence[int], scale: Scale) -> list[str] | None:
    """A step after so many tokens, or None for a mixer that does not stream, or keeps a place for every token."""
    mixer = variant.build().eval()
    if mixer.caps.streaming == "none" or empty(mixer, 4096).bytes() != empty(mixer, 8192).bytes():
        return None
    jobs = {str(tokens): decoding(mixer, tokens, steps=scale.pick(50, 5)) for tokens in after}
    timing = interleave(jobs, repeats=scale.pick(11, 2))
    few, many = map(str, after)
    each = [spoken(timing.median(name) / scale.pick(50, 5)) for name in (few, many)]
    return [variant.name, *each, str(timing.ratio(many, few))]


def empty(mixer: Mixer, capacity: int) -> State | StateTree:
    return mixer.init_state(1, capacity, device=torch.device("cpu"), dtype=torch.float32)


def decoding(mixer: Mixer, tokens: int, steps: int, piece: int = 2000) -> Callable[[], None]:
    """`steps` steps of a row that has been read so far, in pieces."""
    generator = torch.Generator().manual_seed(0)
    state = empty(mixer, tokens + 10_000)
    seq = Seq.padded([1])
    with torch.no_grad():
        for start in range(0, tokens, piece):
            width = min(piece, tokens - start)
            seq = Seq.padded([width], start=start)
            mixer(torch.randn(1, width, WIDTH, generator=generator), seq, state)
    x = torch.randn(1, 1, WIDTH, generator=generator)

    @torch.no_grad()
    def run_steps() -> None:
        nonlocal seq
        for _ in range(steps):
            seq = seq.following()
            mixer(x, seq, state)

    return run_steps


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
