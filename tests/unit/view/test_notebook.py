"""What notebooks show: small tables and figures, never the raw data behind them."""

from attentif.decode import Generated
from attentif.tasks.answers import Evaluation, Prediction, Predictions
from attentif.tasks.details import TableAnswer
from attentif.tasks.pretraining.fill import Filled, TokenGuess
from attentif.text.vectors import WordNeighbour
from attentif.view.forecasts import forecast_table
from attentif.view.notebook import WordNeighbours, show_run
from attentif.view.words import say

HISTORY = [{"step": 1, "loss": 0.9}, {"step": 9, "loss": 0.5}, {"step": 5, "loss": 0.7, "split": "valid"}]
RESULTS = {
    "scores": {"accuracy": 0.9},
    "intervals": {"accuracy": [0.8, 0.95]},
    "baselines": [{"name": {"fr": "majorité", "en": "majority"}, "scores": {"accuracy": 0.5}, "intervals": {}}],
}


def hours(*columns, series=None):
    own = {} if series is None else {"series": series}
    return [
        own
        | {"date": f"2024-01-01 0{hour}:00"}
        | {key: value for name in columns for key, value in ((name, hour + 1.0), (f"{name} q0.1", 0.5), (f"{name} q0.9", 9.5))}
        for hour in range(3)
    ]


def test_a_run_shows_scores_with_intervals_a_curve_and_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "mes runs" / "report.html"
    report.parent.mkdir()
    report.touch()
    shown = show_run(report.parent, [["task", "classify"]], RESULTS, HISTORY, report)
    assert "90.0% [80.0%, 95.0%]" in shown
    assert "majorité" in shown
    assert shown.count("training loss") == 1
    assert "step 9" in shown
    assert '<a href="mes%20runs/report.html">' in shown


def test_a_run_without_a_report_has_no_link(tmp_path):
    shown = show_run(tmp_path, [["task", "classify"]], {}, HISTORY[:1], tmp_path / "report.html")
    assert "<a href" not in shown
    assert "<svg" not in shown


def test_one_series_is_shown_step_by_step_and_several_in_a_line_each():
    alone = forecast_table(hours("debit"))
    assert alone.whole
    assert [say(cell, "en") for cell in alone.rows[1]] == ["2024-01-01 01:00", "2.000 (0.5000 to 9.500)"]
    wide = forecast_table(hours("a", "b", "c"))
    assert not wide.whole
    assert [say(cell, "fr") for cell in wide.rows[2]] == ["c", "1,000 (0,5000 à 9,500)", "3,000 (0,5000 à 9,500)", "2,000"]
    many = forecast_table([*hours("mw", series="est"), *hours("mw", series="ouest")])
    assert [row[0] for row in many.rows] == ["est", "ouest"]
    assert (many.steps, many.numbers) == (6, 2)


def test_a_column_whose_name_ends_like_a_quantile_is_forecast_too():
    assert len(forecast_table([{"date": "2024", "mw q0.1": 1.0}]).columns) == 2


def test_answers_are_tables_and_figures():
    forecasts = Predictions([Prediction("mesures.csv", "3 steps", details=TableAnswer(table=hours("a", "b", "c")))])
    shown = forecasts._repr_html_()
    assert "2024-01-01 02:00" in shown
    assert "fill-opacity" in shown  # the band
    assert "<script>" not in Generated([1, 2], "<b>bold</b>", "length")._repr_html_()
    assert "&lt;b&gt;bold" in Generated([1, 2], "<b>bold</b>", "length")._repr_html_()
    assert (
        "un film superbe" in Filled("un film ___", "un film superbe", ((TokenGuess("superbe", 0.9, "un film superbe", 3),),))._repr_html_()
    )
    assert "plage" in WordNeighbours([WordNeighbour("plage", 0.91, 24.0, 0.4)])._repr_html_()


def test_the_text_of_an_evaluation_leaves_its_raw_details_out():
    shown = repr(Evaluation({"accuracy": 0.9}, details={"confusion": [[1, 2], [3, 4]]}))
    assert "accuracy" in shown
    assert "confusion" not in shown
