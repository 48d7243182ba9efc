import json

import numpy as np
import pytest

from attentif.view import Contender, Score, Text
from attentif.view.figures import (
    Bucket,
    alignment,
    attention_map,
    by_length,
    calibration,
    confusion_matrix,
    contenders,
    cost_bars,
    head_grid,
    learning_rate,
    loss_curves,
    metric_curves,
    reliability,
    smooth,
)

HEADS = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3, 4))  # layers, heads, rows: (2, 3, 4, 5)
SYSTEMS = [
    Contender("<b>ours</b>", {"accuracy": Score(0.9, 0.85, 0.94)}, ours=True),
    Contender(Text("référence", "baseline"), {"accuracy": Score(0.7)}),
    Contender("silent", {"f1": Score(0.1)}),
]
FIGURES = {
    "loss": lambda lang: loss_curves([(1, 3.0), (2, 2.0)], [(2, 2.5)], lang=lang),
    "lr": lambda lang: learning_rate([(1, 1e-3)], lang=lang),
    "metrics": lambda lang: metric_curves({"accuracy": [(1, 0.5)]}, lang=lang),
    "contenders": lambda lang: contenders("accuracy", SYSTEMS, lang=lang),
    "confusion": lambda lang: confusion_matrix([[3, 1], [0, 4]], ["a", "b"], lang=lang),
    "calibration": lambda lang: calibration(reliability([0.9, 0.6], [1, 0]), lang=lang),
    "buckets": lambda lang: by_length("exact_match", [Bucket(1, 5, Score(0.9, 0.8, 0.95), 1200)], lang=lang),
    "cost": lambda lang: cost_bars({"encoder": 300, "head": 100}, "parameters", lang=lang),
    "map": lambda lang: attention_map(HEADS[0, 0], list("abcd"), list("vwxyz"), lang=lang),
    "alignment": lambda lang: alignment(HEADS[0, 0], list("abcd"), list("vwxyz"), lang=lang),
    "grid": lambda lang: head_grid({"0": HEADS[0], "1": HEADS[1]}, lang=lang),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_speaks_both_languages_over_the_same_data(name):
    french, english = (json.loads(FIGURES[name](lang).to_json()) for lang in ("fr", "en"))
    assert french != english
    for there, here in zip(french["data"], english["data"], strict=True):
        assert all(there.get(axis) == here.get(axis) for axis in "yz")


def test_loss_curves_hold_what_they_are_given():
    smooth, valid, raw = loss_curves([(1, 3.0), (2, 2.0), (3, 4.0)], [(2, 2.5)]).data
    assert list(zip(raw.x, raw.y, strict=True)) == [(1, 3.0), (2, 2.0), (3, 4.0)]
    assert list(zip(valid.x, valid.y, strict=True)) == [(2, 2.5)]
    assert smooth.y[0] == 3.0
    assert 2 < smooth.y[2] < 4


def test_smoothing_leaves_a_constant_alone_and_window_one_changes_nothing():
    assert smooth([2.0] * 9, 4) == pytest.approx([2.0] * 9)
    assert smooth([1.0, 5.0, 2.0], 1) == [1.0, 5.0, 2.0]


def test_curves_without_points_are_empty_figures():
    assert [len(trace.x) for trace in loss_curves([]).data] == [0, 0, 0]
    assert len(metric_curves({}).data) == 0
    assert len(contenders("accuracy", []).layout.annotations) == 0


def test_scores_without_intervals_have_no_whiskers():
    ours, others = contenders("accuracy", SYSTEMS).data
    assert ours.error_x.visible is None  # plotly's own: where there is an array
    assert others.error_x.visible is False


def test_on_a_phone_the_axis_of_errors_has_two_short_lines():
    assert (
        contenders("mse", [Contender("known", {"mse": Score(0.5)})]).layout.xaxis.title.text
        == "mean squared error (MSE)<br>(lower is better)"
    )


def test_contenders_are_ranked_and_those_without_the_score_left_out():
    fig = contenders("accuracy", SYSTEMS)
    ours, others = fig.data
    assert list(ours.x) == [90.0]
    assert list(others.x) == [70.0]
    assert ours.y[0] > others.y[0]
    assert list(ours.error_x.array) == pytest.approx([4.0])
    assert list(ours.error_x.arrayminus) == pytest.approx([5.0])
    assert [note.text for note in fig.layout.annotations] == ["baseline  <b>70.0%</b>", "&lt;b&gt;ours&lt;/b&gt;  <b>90.0%</b>"]


def test_where_lower_is_better_the_lowest_stands_on_top():
    systems = [Contender("high", {"perplexity": Score(30.0)}), Contender("low", {"perplexity": Score(8.0)}, ours=True)]
    ours, others = contenders("perplexity", systems).data
    assert ours.y[0] > others.y[0]


def test_confusion_shows_counts_and_shares_of_the_row():
    (heat,) = confusion_matrix([[3, 1], [0, 0]], ["<i>", "<i>"]).data
    assert heat.text[0][0] == "<b>3</b><br>75.0%"
    assert np.allclose(heat.z, [[0.75, 0.25], [0, 0]])
    assert heat.x[0] != heat.x[1]
    assert "<i>" not in heat.x[0]


def test_calibration_error_is_the_mean_gap_between_confidence_and_accuracy():
    measured = reliability([0.95, 0.95, 0.55, 0.55], [1, 0, 1, 1])
    assert measured.counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert measured.ece == pytest.approx(0.5 * 0.45 + 0.5 * 0.45)
    assert any("45.0%" in note.text for note in calibration(measured).layout.annotations)


def test_confidence_on_the_edge_of_a_bin_belongs_to_the_bin_below():
    assert reliability([1.0, 0.5, 0.0], [1, 1, 0], bins=2).counts.tolist() == [2, 1]


def test_repeated_tokens_keep_rows_of_their_own():
    (heat,) = attention_map(np.eye(3), ["le", "chat", "le"]).data
    assert len(set(heat.x)) == 3
    assert [name.strip("\u200b") for name in heat.x] == ["le", "chat", "le"]
    assert np.array_equal(heat.z, np.eye(3))


def test_the_head_grid_is_one_mosaic_of_every_head():
    (heat,) = head_grid({"a": HEADS[0], "b": HEADS[1]}).data
    assert heat.z.shape == (2 * 4, 3 * 5)
    tile = heat.z[4:8, 10:15]  # second layer, third head
    assert np.allclose((tile / 255) ** 2, HEADS[1, 2], atol=0.005)
