from pathlib import Path

import numpy as np
import pytest

from attentif.view import AttentionMaps, Contender, FigureBlock, Paragraph, Score, Section, Text
from attentif.view.page import render
from attentif.view.report import Cost, Origin, RunReport, SplitScores, headline, page, points, scores_table, training_blocks, write_report
from attentif.view.words import IN_TOKENS, THIN_SPACE

HISTORY = [
    {"step": 1, "loss": 2.0, "lr": 1e-4, "padding": 0.1, "seconds": 1.0},
    {"step": 2, "loss": 1.5, "lr": 2e-4, "padding": 0.3},
    {"step": 1, "split": "valid", "loss": 1.9, "accuracy": 0.5, "perplexity": 6.7},
    {"step": 2, "split": "valid", "loss": 1.7, "accuracy": 0.6, "perplexity": 5.5, "seconds": 2.0},
    {"note": "resumed"},
]
BASELINE = Contender(Text("référence", "baseline"), {"accuracy": Score(0.8, 0.78, 0.82)})


def report(**changes) -> RunReport:
    given = {
        "title": "Run",
        "done": [Text("Fait.", "Done.")],
        "outcome": SplitScores("accuracy", {"accuracy": Score(0.9, 0.88, 0.92)}, [BASELINE], examples=1000),
        "history": HISTORY,
        "cost": Cost(10.0, 50_000, 900_000_000, {"encoder": 1000, "head": 10}),
        "origin": Origin("reviews", 'version = 1 # <script>"', {"torch": "2.13"}, ["3 duplicates <b>"]),
    }
    return RunReport(**(given | changes))


def test_the_headline_gives_score_interval_and_distance_to_the_best_baseline():
    weak = Contender("weak", {"accuracy": Score(0.5)})
    outcome = SplitScores("accuracy", {"accuracy": Score(0.9, 0.88, 0.92)}, [weak, BASELINE], examples=1000)
    words = headline(outcome)
    assert (
        words.en == "Accuracy: 90.0% [88.0; 92.0] on the test set (1,000 examples), 10.0 points above the best baseline, baseline (80.0%)."
    )
    assert "10,0 points de plus que la meilleure référence, référence" in words.fr


def test_overlapping_intervals_are_not_called_a_victory():
    outcome = SplitScores("accuracy", {"accuracy": Score(0.81, 0.79, 0.83)}, [BASELINE])
    assert "do not establish the difference" in headline(outcome).en
    assert "n’établissent pas l’écart" in headline(outcome).fr


def test_scores_that_are_written_alike_are_level():
    rival = Contender("linear", {"mse": Score(0.86581)})
    assert "level with the best baseline" in headline(SplitScores("mse", {"mse": Score(0.86582)}, [rival])).en


def test_the_headline_counts_what_was_scored():
    outcome = SplitScores("perplexity", {"perplexity": Score(20.0)}, examples=1590, unit=IN_TOKENS)
    assert "(1,590 tokens)" in headline(outcome).en
    assert "jetons)" in headline(outcome).fr


def test_a_defeat_is_said():
    assert "10.0 points below the best baseline" in headline(SplitScores("accuracy", {"accuracy": Score(0.7)}, [BASELINE])).en


def test_where_lower_is_better_the_best_baseline_is_the_lowest():
    rivals = [Contender("bigram", {"perplexity": Score(90.0)}), Contender("trigram", {"perplexity": Score(60.0)})]
    assert "40.0 below the best baseline, trigram (60.00)" in headline(SplitScores("perplexity", {"perplexity": Score(20.0)}, rivals)).en


def test_without_scores_or_baselines_the_headline_claims_nothing():
    assert headline(SplitScores("accuracy", {})).en == "No score was measured."
    assert headline(SplitScores("bleu", {"bleu": Score(31.2)}, split="valid")).en == "BLEU: 31.20 on the validation set."


def test_the_table_of_scores_ranks_and_stresses_the_run():
    table = scores_table(report().outcome)
    assert [row[0] for row in table.rows] == [Text("ce modèle", "this model"), Text("référence", "baseline")]
    assert table.strong == {0}


def test_points_take_the_rows_of_one_split_that_hold_the_key():
    assert points(HISTORY, "loss") == [(1, 2.0), (2, 1.5)]
    assert points(HISTORY, "loss", "valid") == [(1, 1.9), (2, 1.7)]
    assert points(HISTORY, "nothing") == []


def test_the_first_screen_is_a_sentence_and_a_figure():
    lead = page(report()).lead
    assert isinstance(lead[0], Paragraph)
    assert isinstance(lead[1], FigureBlock)


def test_without_baselines_the_first_figure_is_the_fall_of_the_loss():
    alone = page(report(outcome=SplitScores("accuracy", {"accuracy": Score(0.9)})))
    titles = [
        part.title
        for part in [*alone.lead, *(block for section in alone.sections for block in section.body)]
        if isinstance(part, FigureBlock)
    ]
    assert alone.lead[1].title == Text("Perte", "Loss")
    assert titles.count(Text("Perte", "Loss")) == 1


def test_the_report_holds_all_its_parts_in_both_languages(tmp_path: Path):
    maps = AttentionMaps(["un", "mot"], {"encoder.0": np.eye(2)[None]})
    write_report(tmp_path / "report.html", report(sections=[Section(Text("À lui", "Its own"), [Paragraph("task")])], maps=[maps]))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (
        *("Ce qui a été fait", "What was done", "À lui", "Its own", "Cartes d’attention", "Attention maps"),
        *("Apprentissage", "Training", "Coût", "Cost", "Données", "Data", "Configuration", f"900{THIN_SPACE}Mo", "900 MB", "20.0%"),
        *("3 duplicates &lt;b&gt;", '<span class="c"># &lt;script&gt;&quot;</span>', "2.13", "Validation: perplexity"),
    ):
        assert words in html, words


@pytest.mark.parametrize(
    "history", [[], [{"step": 1}], [{"step": 1, "loss": float("nan")}], [{"step": 1, "split": "valid", "accuracy": None}]]
)
def test_a_run_with_little_to_say_still_has_a_report(history):
    empty = report(outcome=SplitScores("accuracy", {}), history=history, cost=Cost(0.0, 0, None, {}), origin=Origin("x", "", {}), done=[])
    html = render(page(empty))
    assert "No score was measured." in html
    assert "What was done" not in html


def test_a_single_evaluation_is_no_curve():
    short = [row for row in HISTORY if row.get("step") == 2]
    assert training_blocks(short, SplitScores("accuracy", {})) == []
    once = [row for row in HISTORY if not (row.get("split") == "valid" and row["step"] == 1)]
    assert [block.title.en for block in training_blocks(once, SplitScores("accuracy", {}))] == ["Loss", "Learning rate"]


def test_a_run_with_experts_shows_their_balance():
    rows = [row | {"expert_entropy": 0.9, "expert_shares": {"decoder.blocks.0.ffn": [0.5, 0.5]}} for row in HISTORY if "split" not in row]
    titles = [block.title for block in training_blocks(rows, SplitScores("accuracy", {})) if isinstance(block, FigureBlock)]
    assert Text("Équilibre des experts", "Balance of the experts") in titles
    assert Text("Équilibre des experts", "Balance of the experts") not in [
        block.title for block in training_blocks(HISTORY, SplitScores("accuracy", {})) if isinstance(block, FigureBlock)
    ]
