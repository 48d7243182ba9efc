"""Figures of forecasts hold the numbers they are given, in both languages."""

import pytest

from attentif.view.figures.forecast import ClassifiedSignal, Panel, error_by_step, forecasts, signals
from attentif.view.words import Lang, Text

DATES = [f"2024-01-{day:02d}" for day in range(1, 9)]


@pytest.mark.parametrize("lang", ["fr", "en"])
def test_a_panel_has_the_truth_the_forecast_and_its_band(lang: Lang) -> None:
    panel = Panel("a <b>", list(range(8)), [[4, 5, 6], [5, 6, 7], [6, 7, 8]])
    fig = forecasts(DATES, [panel, panel], [0.1, 0.5, 0.9], lang=lang)
    band, truth, given = fig.data[:3]
    assert list(band.y) == [6, 7, 8, 6, 5, 4]
    assert list(truth.y) == list(range(8))
    assert list(given.x) == DATES[-3:]
    assert list(given.y) == [5, 6, 7]
    assert [trace.yaxis for trace in fig.data] == ["y"] * 3 + ["y2"] * 3
    assert fig.layout.yaxis.title.text == "a &lt;b&gt;"
    assert given.name == {"fr": "prévision", "en": "forecast"}[lang]


def test_without_quantiles_there_is_no_band() -> None:
    fig = forecasts(DATES, [Panel("a", list(range(8)), [[4, 5, 6]])], [])
    assert len(fig.data) == 2


def test_errors_begin_at_the_first_step() -> None:
    fig = error_by_step({Text("ce modèle", "this model"): [0.1, 0.2], Text("autre", "other"): [0.3, 0.4]}, lang="fr")
    assert [trace.name for trace in fig.data] == ["ce modèle", "autre"]
    assert list(fig.data[0].x) == [1, 2]
    assert list(fig.data[1].y) == [0.3, 0.4]


def test_signals_stand_one_above_the_other() -> None:
    fig = signals([ClassifiedSignal([1, 2, 3], "a → b", 0.9, "s.csv:3"), ClassifiedSignal([3, 2, 1], "b → a", 0.8, "s.csv:9")], lang="fr")
    assert [list(trace.y) for trace in fig.data] == [[1, 2, 3], [3, 2, 1]]
    assert "90\u202f%" in fig.layout.annotations[0].text
