"""That the benchmark of patterns runs and counts rightly; no test looks at a time."""

import sys

import torch
from benchmarks.common import QUICK
from benchmarks.window import FORMS, mixer, peak, steps


def test_every_form_is_computed_by_blocks_at_the_lengths_that_are_measured() -> None:
    assert all(mixer(*form).sparse.pays(1536) for form in FORMS.values())


def test_steps_and_memory_are_measured() -> None:
    torch.set_num_threads(1)
    assert all(len(seconds) == QUICK.repeats for seconds in steps(QUICK).timing.seconds.values())
    if sys.platform == "linux":
        assert peak("causal window", 1536) > 0
