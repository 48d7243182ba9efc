"""Curves with bands, intervals by model, Pareto fronts: what they hold, in both languages, and what they refuse."""

import itertools
import json
import math

import pytest

from attentif.errors import UsageError
from attentif.view import Score, Text
from attentif.view.figures import Axis, Band, IntervalEstimate, ParetoPoint, banded_curves, front, intervals, pareto
from attentif.view.figures.axes import SECONDS, STEPS, log_ticks
from attentif.view.figures.pareto import sides
from attentif.view.words import LANGS, THIN_SPACE, metric

ACCURACY, LOSS = Axis.of(metric("accuracy")), Axis.of(metric("loss"))
NAN = math.nan
BANDS = [Band("<b>lstm", [1, 2, 4], [3.0, NAN, 1.0], [2.0, 1.0, NAN], [4.0, 2.0, 2.0]), Band("n-gram", [1, 2], [2, 2], baseline=True)]
ESTIMATES = [
    IntervalEstimate(Text("nôtre", "ours"), Score(0.9, 0.8, 0.95), [0.88, 0.92]),
    IntervalEstimate("other", Score(NAN), stressed=False),
]
CHOICES = [
    ParetoPoint("slow and bad", Score(9.0), Score(0.5)),
    ParetoPoint("cheap", Score(1.0, 0.5, 2.0), Score(0.6)),
    ParetoPoint("dear", Score(10.0), Score(0.9, 0.8, 0.95)),
    ParetoPoint("not measured", Score(NAN), Score(0.99)),
]
FIGURES = {
    "bands": lambda lang: banded_curves(BANDS, STEPS.logarithmic(), LOSS, lang=lang),
    "intervals": lambda lang: intervals(ESTIMATES, ACCURACY, reference=0.5, lang=lang),
    "pareto": lambda lang: pareto(CHOICES, SECONDS.logarithmic(), ACCURACY, lang=lang),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_speaks_both_languages_over_the_same_data_and_survives_nan(name):
    french, english = (json.loads(FIGURES[name](lang).to_json(), parse_constant=pytest.fail) for lang in LANGS)
    assert french["layout"] != english["layout"]
    for there, here in zip(french["data"], english["data"], strict=True):
        assert all(there.get(axis) == here.get(axis) for axis in "xy")


@pytest.mark.parametrize(
    "draw",
    [lambda: banded_curves([], STEPS, LOSS), lambda: intervals([], ACCURACY), lambda: pareto([], SECONDS, ACCURACY)],
)
def test_nothing_to_draw_is_said_in_one_line(draw):
    with pytest.raises(UsageError, match=r"nothing"):
        draw()


def test_a_band_goes_along_its_upper_bound_and_back_along_the_lower_one_without_what_is_missing():
    polygon, line, other = FIGURES["bands"]("en").data
    assert list(polygon.x) == [1, 2, 2, 1]
    assert list(polygon.y) == [4.0, 2.0, 1.0, 2.0]
    assert list(line.y) == [3.0, None, 1.0]
    assert line.line.color == polygon.fillcolor != other.line.color
    assert line.name == "&lt;b&gt;lstm"
    assert other.line.dash == "dot"


def test_a_band_with_one_bound_is_refused():
    with pytest.raises(ValueError, match="both bounds"):
        Band("a", [1], [1], low=[0])


def test_the_first_estimate_stands_on_top_with_its_interval_in_words():
    fig = FIGURES["intervals"]("fr")
    seeds, ours, _, other = fig.data
    assert ours.y[0] > other.y[0]
    assert list(ours.x) == pytest.approx([90.0])
    assert list(ours.error_x.array) == pytest.approx([5.0])
    assert list(seeds.x) == pytest.approx([88.0, 92.0])
    labels = [note.text for note in fig.layout.annotations]
    assert any("nôtre  <b>90,0\u202f% [80,0\u202f%\u202f; 95,0\u202f%]</b>" in label for label in labels)


def test_the_front_holds_those_that_no_other_beats_at_both():
    assert [one.name for one in front(CHOICES, ACCURACY)] == ["cheap", "dear"]
    assert [one.name for one in front(CHOICES, LOSS)] == ["cheap", "slow and bad"]  # where less is better
    twins = [ParetoPoint("a", Score(1.0), Score(0.5)), ParetoPoint("b", Score(1.0), Score(0.5))]
    assert front(twins, ACCURACY) == twins


def test_names_of_a_logarithmic_axis_stand_at_exponents():
    fig = FIGURES["pareto"]("en")
    assert {note.text: note.x for note in fig.layout.annotations}["dear"] == pytest.approx(1.0)
    assert len(fig.layout.annotations) == 3


def boxes(places, names, spots):
    wide, high = 380, 320
    pixel = lambda value, values, size: size * (value - min(values)) / (max(values) - min(values))
    xs, ys = zip(*places, strict=True)
    return [side.box((pixel(x, xs, wide), pixel(y, ys, high)), name) for (x, y), name, side in zip(places, names, spots, strict=True)]


def test_names_of_neighbours_do_not_cover_each_other():
    places = [(3.5, 10.7), (3.56, 17.4), (3.52, 12.0), (4.3, 6.5), (4.35, 6.6), (4.33, 7.4), (4.4, 20.0)]
    names = ["lstm-tiny", "decoder-tiny", "gru-tiny", "mamba-tiny", "mamba2-tiny", "griffin-tiny", "rwkv-tiny"]
    found = boxes(places, names, sides(places, names))
    for one, other in itertools.combinations(found, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


def test_a_name_that_stands_alone_is_above_and_to_the_right():
    (side,) = sides([(1.0, 1.0)], ["lstm"])
    assert (side.anchor, side.right > 0, side.up > 0) == ("left", True, True)


def test_ticks_of_a_logarithmic_axis_are_few_and_round():
    assert log_ticks([3, 20]) == [5, 10, 20]
    assert log_ticks([1e3, 9e5]) == [1e3, 1e4, 1e5, 1e6]
    assert len(log_ticks([1, 1e20])) <= 8
    assert log_ticks([]) == []
    assert SECONDS.logarithmic().layout("fr", [1e4, 1e6])["ticktext"] == [f"10{THIN_SPACE}k", f"100{THIN_SPACE}k", f"1{THIN_SPACE}M"]


def test_intervals_of_shares_end_at_none_and_at_all_of_them() -> None:
    fig = intervals([IntervalEstimate("post-norm", Score(0.6, -0.2, 1.3))], ACCURACY)
    whisker = next(trace for trace in fig.data if trace.error_x.array).error_x
    assert (whisker.array[0], whisker.arrayminus[0]) == pytest.approx((40, 60))
    between = banded_curves([Band("post-norm", [1, 2], [0.6, 0.7], [-0.2, 0.5], [1.3, 0.9])], STEPS, ACCURACY).data[0]
    assert list(between.y) == pytest.approx([100, 90, 50, 0])
