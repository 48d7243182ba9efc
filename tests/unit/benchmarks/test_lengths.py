"""That exponents are fitted rightly and every mixer is found; no test looks at a time."""

import math

import pytest
from benchmarks.lengths import LEFT_OUT, Variant, exponent, variants

from attentif.lab.timing import Timing
from attentif.nn.mixer import MIXERS


def test_the_exponent_is_the_slope_of_the_logarithms() -> None:
    lengths = [2048, 4096, 8192]
    timing = Timing({n: [n**1.5, 3.0 * n**1.5, n**2.0] for n in lengths})
    slope = exponent(timing, lengths)
    assert slope is not None
    assert slope.median == pytest.approx(1.5)
    assert slope.high == pytest.approx(1.75)
    assert exponent(timing, [2048]) is None


def test_every_mixer_that_reads_one_sequence_is_measured() -> None:
    found = [variant for variant in variants(64) if isinstance(variant, Variant)]
    kinds = {variant.config.kind for variant in found}
    assert {"attention", "rwkv-time", "gated-conv", "gated-recurrence"} <= kinds <= set(MIXERS) - set(LEFT_OUT)
    goals = {variant.name: variant.goal for variant in found}
    assert goals["attention, causal"] == math.inf
    assert goals["attention, causal, window 256"] == goals["rwkv-time"] == 1.15
    assert goals["gated-conv"] == 1.5
