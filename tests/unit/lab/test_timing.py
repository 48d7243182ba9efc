"""Contestants take turns; medians and ratios are those of the rounds. No test looks at a time."""

from attentif.lab.timing import Timing, interleave, middle_half


def test_contestants_take_turns_and_each_run_is_heard() -> None:
    order: list[str] = []
    heard: list[str] = []
    jobs = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timing = interleave(jobs, repeats=2, warmup=1, after=heard.append)
    assert order == heard == ["b", "a", "a", "b", "b", "a"]
    assert [len(seconds) for seconds in timing.seconds.values()] == [2, 2]


def test_a_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    timing = Timing({1: [1.0, 2.0, 4.0], 2: [3.0, 4.0, 4.0]})
    assert timing.ratio(2, 1) == middle_half([3.0, 2.0, 1.0])
    assert str(timing.ratio(2, 1)) == "2.00 (1.50 to 2.50)"
