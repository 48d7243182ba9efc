"""Time against length for every mixer there is, and what a decoding step costs after few and after many tokens.

Mixers are found in the registry, so that a new one is measured without a line here; `SETTINGS` holds what their defaults do not say.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attentif.errors import AttentifError
from attentif.lab.fit import power_law
from attentif.lab.profile.measure import first_look, several
from attentif.lab.profile.subjects import MixerSubject
from attentif.lab.timing import Ratio, Timing, interleave, middle_half
from attentif.nn.mixer import MIXERS
from attentif.runtime import keep_buffers
from benchmarks.common import Scale, alone, format_seconds

TITLE = "Time against length"
ABOUT = """
Forward and backward of one mixer of width 256 on one row, in float32, with memory kept between steps as training keeps it. The exponent
is the slope of log time against log length from 2,048 tokens on, fitted in every round: its median, the quartiles in brackets; 1 is
linear, 2 quadratic. Lengths run in turns, and a length that would take longer than the time limit is left out. The second table is a
decoding step of the mixers that keep a state of bounded size, after 100 and after 100,000 tokens, in turns.
"""
WIDTH, FITTED_FROM, LIMIT = 256, 2048, 4.0  # LIMIT: seconds that one forward and backward may take
LINEAR, BY_FFT = 1.15, 1.5  # largest exponents
FFT = ("s4d", "gated-conv")
LEFT_OUT = {"parallel": "made of other mixers", "feed-forward": "reads no neighbour", "experts": "reads no neighbour"}
WINDOW = {"kind": "window", "left": 256}
SETTINGS: Mapping[str, Sequence[Mapping[str, Any]]] = {  # variants measured besides the default ones
    "attention": ({"causal": True, "pattern": [WINDOW]}, {"causal": False, "pattern": [WINDOW | {"right": 256}]}),
    "gated-recurrence": ({"form": "min-gru"},),
}


class Variant(MixerSubject):
    """A mixer to be measured."""

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
                yield Variant(name_mixer(kind, values), MIXERS[kind].model_validate({"kind": kind} | fixed | dict(values)), WIDTH)
            except (AttentifError, ValueError) as error:
                yield f"{name_mixer(kind, values)} ({str(error).splitlines()[0]})"


def name_mixer(kind: str, values: Mapping[str, Any]) -> str:
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
    found, _ = first_look(variant, "training", lengths, LIMIT)
    timing = interleave({length: point.job for length, point in found.items()}, repeats=scale.pick(5, 2), warmup=0)
    times = [format_seconds(timing.median(length)) if length in found else "" for length in lengths]
    slope = exponent(timing, [length for length in found if length >= scale.pick(FITTED_FROM, 16)])
    goal = "" if math.isinf(variant.goal) else f"at most {variant.goal}"
    return [variant.name, variant.config.cost, *times, str(slope or ""), goal]


def exponent(timing: Timing[int], lengths: Sequence[int]) -> Ratio | None:
    """The slope in every round: median and quartiles."""
    if len(lengths) < 2:
        return None
    rounds = zip(*(timing.seconds[length] for length in lengths), strict=True)
    return middle_half([power_law(lengths, seconds).exponent for seconds in rounds])


def decoding_row(variant: Variant, after: Sequence[int], scale: Scale) -> list[str] | None:
    """A step after so many tokens, or None for a mixer that does not stream, or keeps a place for every token."""
    if not variant.streams or variant.empty(4096).bytes() != variant.empty(8192).bytes():
        return None
    steps = scale.pick(50, 5)
    timing = interleave({tokens: several(variant.decoding(tokens).step, steps) for tokens in after}, repeats=scale.pick(11, 2))
    few, many = after
    return [variant.name, *(format_seconds(timing.median(tokens) / steps) for tokens in after), str(timing.ratio(many, few))]


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
