"""A comparison in words and as a page, from plain numbers alone."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from attentif.view.blocks import FigureBlock, Paragraph, TableBlock
from attentif.view.caveats import may_not
from attentif.view.comparison import comparison_fragment, comparison_page
from attentif.view.comparison_figures import costs, differences, mean_curve
from attentif.view.comparison_tables import cost_table, rates, rows_of, sizes_table
from attentif.view.verdict import conclusion, describe_setting, may, score_of
from attentif.view.words import THIN_SPACE, join_names, say

SEEDS = [0, 1, 2, 3, 4]


def model(name: str, **changes: Any) -> dict[str, Any]:
    values = {
        "name": name,
        "base": name,
        "own_width": 128,
        "changed": {"model.width": 64},
        "parameters": 200_000,
        "embedding_parameters": 50_000,
        "active_parameters": 200_000,
        "flops_per_token": 1.2e6,
        "amount": 200_000,
        "wanted": 200_000,
        "error": 0.0,
        "tokens": 100_000,
        "context": 128,
        "state_bytes": 4096,
        "lr": 3e-3,
        "lr_from": "search",
        "timing": {"seconds": 60.0, "tokens_per_second": 5000.0, "peak_memory": 5e8, "decoding": {"tokens_per_second": 900.0}},
    }
    return values | changes


def run(name: str, seed: int, score: float) -> dict[str, Any]:
    steps = [10, 20, 30, 40, 50]
    return {
        "model": name,
        "seed": seed,
        "run": f"{name}-{seed}",
        "failed": None,
        "scores": {"accuracy": score},
        "curve": {"steps": steps, "tokens": [100 * s for s in steps], "flops": steps, "score": [0.5, 0.7, score, score, score]},
        "timing": {"curve": [s + seed for s in steps]},
    }


def mean(value: float, half: float) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "deviation": half, "runs": len(SEEDS)}


def pair(first: str, second: str, value: float, adjusted: float) -> dict[str, Any]:
    bounds = {"low": value - 0.01, "high": value + 0.01}
    return {"first": first, "second": second, "value": value, **bounds, "adjusted": adjusted, "p": adjusted, "different": adjusted < 0.05}


def comparison() -> dict[str, Any]:
    """Three models, of which the first two are close."""
    search = {
        "rates": [1e-3, 3e-3, 1e-2],
        "share": 0.25,
        "seed": 0,
        "metric": "loss",
        "chosen": {"<b>gru</b>": 3e-3, "mamba": 3e-3, "rnn": 3e-3},
    }
    search["trials"] = [{"model": name, "lr": rate, "score": 0.7} for name in ("<b>gru</b>", "mamba", "rnn") for rate in (1e-3, 3e-3, 1e-2)]
    return {
        "name": "reviews",
        "recipe": "reviews",
        "metric": "accuracy",
        "higher_is_better": True,
        "data": {"examples": {"train": 900, "valid": 100, "test": 2000}, "notes": ["a note"]},
        "budget": {"kind": "params", "amount": 2e5, "words": "200 k parameters"},
        "seeds": SEEDS,
        "models": [model("<b>gru</b>"), model("mamba"), model("rnn")],
        "search": search,
        "runs": [
            run(name, seed, score + 0.001 * seed) for seed in SEEDS for name, score in (("<b>gru</b>", 0.9), ("mamba", 0.91), ("rnn", 0.8))
        ],
        "baselines": [{"name": {"fr": "mots comptés", "en": "counted words"}, "scores": {"accuracy": 0.7}}],
        "statistics": {
            "scores": {"<b>gru</b>": mean(0.9, 0.01), "mamba": mean(0.91, 0.01), "rnn": mean(0.8, 0.01)},
            "differences": [
                pair("<b>gru</b>", "mamba", -0.01, 0.3),
                pair("<b>gru</b>", "rnn", 0.1, 0.001),
                pair("mamba", "rnn", 0.11, 0.001),
            ],
        },
    }


def said(part: dict[str, Any]) -> str:
    return conclusion(part).en


def test_what_the_tests_establish_is_said_and_what_they_do_not_too() -> None:
    (first, told, untold, _) = may(comparison())
    assert first.en == "mamba comes first: 91.0% [90.0; 92.0] (accuracy)."
    assert told.en.startswith("The difference from rnn (11.0 points) is established at the 5% level")
    assert untold.en == "That from <b>gru</b> is not: these models may be as good as each other."
    assert untold.fr == "Il ne l’est pas avec <b>gru</b>\u00a0: ces modèles peuvent se valoir."


def test_a_pair_that_only_the_correction_holds_back_is_not_called_as_good() -> None:
    part = comparison()
    part["statistics"]["differences"][2] |= {"p": 0.003, "adjusted": 0.09, "different": False}
    (_, nothing, likely, untold, _) = may(part)
    assert nothing.en == "No difference from the others is established at the 5% level (paired tests, Holm's correction)."
    assert likely.en.startswith("That from rnn (11.0 points) is likely and not established: this pair passes the level by itself")
    assert "not after correction for 3 pairs" in likely.en
    assert untold.en == "Nothing tells it from <b>gru</b>: these models may be as good as each other."


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        (0.7, "None does worse than the best simple system: counted words, 70.0% (measured once)."),
        (0.85, "rnn does worse than the best simple system: counted words, 85.0% (measured once)."),
        (0.905, "<b>gru</b> and rnn do worse than the best simple system: counted words, 90.5% (measured once)."),
        (0.95, "A simple system does better than all of them: counted words, 95.0% (measured once)."),
    ],
)
def test_where_the_models_stand_to_the_best_simple_system_is_said(reached: float, words: str) -> None:
    part = comparison()
    part["baselines"] += [{"name": {"fr": "hasard", "en": "chance"}, "scores": {"accuracy": 0.5}}]
    part["baselines"][0]["scores"]["accuracy"] = reached
    assert may(part)[-1].en == words


def test_a_simple_system_with_fewer_errors_does_better() -> None:
    part = comparison() | {"metric": "wer", "higher_is_better": False}
    part["baselines"][0]["scores"] = {"wer": 0.85}
    assert may(part)[-1].en == "<b>gru</b> and mamba do worse than the best simple system: counted words, 85.0% (measured once)."


def test_of_one_model_nobody_says_that_it_comes_first() -> None:
    part = comparison() | {
        "models": [model("mamba")],
        "search": None,
        "statistics": {"scores": {"mamba": mean(0.91, 0.01)}, "differences": []},
    }
    words = said(part)
    assert "mamba reaches 91.0% [90.0; 92.0] (accuracy). The best simple system does no better: counted words, 70.0%" in words
    assert "tuned for each model" not in words
    assert "1 model, 5 seeds, at its own size" in said(part | {"budget": None})
    part["baselines"][0]["scores"]["accuracy"] = 0.95
    assert "mamba does worse than the best simple system: counted words, 95.0%" in said(part)


def test_of_what_a_budget_of_tokens_changes_limits_that_are_off_are_not_shown() -> None:
    part = comparison()
    part["models"][0]["changed"] = {"train.steps": 30, "train.epochs": 0.0, "train.minutes": 0.0}
    assert sizes_table(part).rows[0][1] == "train.steps = 30"


def test_whatever_is_uneven_is_said_in_one_sentence() -> None:
    part = comparison() | {"budget": {"kind": "seconds", "amount": 60.0, "words": ""}}
    part["models"][1] |= {"flops_per_token": 2.4e6, "parameters": 600_000}
    (uneven,) = [reason for reason in may_not(part) if "equal" in reason.en]
    both = "mamba takes 2.0 times as many training operations as <b>gru</b>; mamba takes 3.0 times as many parameters as <b>gru</b>"
    assert uneven.en == f"Not all is equal: {both}."
    assert uneven.fr.startswith(
        "Tout n’est pas égal\u00a0: mamba demande 2,0 fois plus d’opérations d’apprentissage que <b>gru</b>\u202f; mamba "
    )


@pytest.mark.parametrize(
    ("failed", "french", "english"),
    [
        ([0], "1 apprentissage de mamba a échoué\u00a0: ce modèle n’est pas comparé", "1 run of mamba failed: it is not compared"),
        ([0, 1], "2 apprentissages de mamba ont échoué\u00a0: ce modèle n’est pas comparé", "2 runs of mamba failed: it is not compared"),
    ],
)
def test_several_failures_of_one_model_are_of_one_model(failed: list[int], french: str, english: str) -> None:
    part = comparison()
    for one in part["runs"]:
        if one["model"] == "mamba" and one["seed"] in failed:
            one |= {"failed": "the loss is not finite", "scores": None}
    assert f"{english} over all seeds." in said(part)
    assert f"{french} sur toutes les graines." in conclusion(part).fr


def test_an_interval_is_cut_to_what_the_score_can_be() -> None:
    part = comparison()
    part["statistics"]["scores"] |= {"mamba": mean(0.91, 0.2), "rnn": mean(0.1, 0.3)}
    assert may(part)[0].en == "mamba comes first: 91.0% [71.0; 100.0] (accuracy)."
    assert [str(row[1].en) for row in cost_table(part).rows][-1] == "10.0% [0.0; 40.0]"
    errors = part | {"metric": "wer", "higher_is_better": False}
    assert (score_of(errors, "mamba").low, score_of(errors, "mamba").high) == (pytest.approx(0.71), pytest.approx(1.11))


def test_two_shares_differ_by_points() -> None:
    block = differences(comparison())[0]
    assert isinstance(block, FigureBlock)
    drawn = block.draw(lang="en")
    assert drawn.layout.xaxis.title.text == "difference, accuracy (points)"
    assert [note.text for note in drawn.layout.annotations if "mamba − rnn" in note.text] == ["mamba − rnn  <b>11.0 [10.0; 12.0]</b>"]
    close = next(note.text for note in drawn.layout.annotations if "mamba − &lt;b&gt;gru" in note.text)
    assert close.endswith("<b>1.0 [0.0; 2.0]</b>")


def test_what_was_compared_is_said_in_a_sentence() -> None:
    words = describe_setting(comparison()).en
    assert words.startswith("On reviews (2,000 test examples): 3 models, 5 seeds, the same number of parameters (200 k), ")
    assert "chosen for each by short trials (25% of a training run" in words


def test_who_was_given_a_rate_while_the_others_were_searched_is_said() -> None:
    part = comparison()
    part["models"][2]["lr_from"] = "given"
    assert describe_setting(part).en.endswith("on validation), but for rnn (given).")
    assert describe_setting(part).fr.endswith("sur la validation), sauf pour rnn (donné).")
    part["models"] = [one | {"lr_from": "given"} for one in part["models"]]
    assert describe_setting(part).en.endswith("a learning rate given beforehand.")


def test_how_a_rate_was_chosen_is_said_as_it_was_done() -> None:
    """Of losses that a short trial cannot tell apart the smallest rate is kept: it need not be the best of its row."""
    by_loss = comparison()
    by_score = by_loss | {"search": by_loss["search"] | {"metric": "accuracy"}}
    said = [str(rates(part)[0]) for part in (by_loss, by_score)]
    assert "within 1% of each other, the smallest rate" in said[0]
    assert "is the best of its row" in said[1]


@pytest.mark.parametrize(
    ("kind", "amount", "french"),
    [
        ("seconds", 300.0, f"le même temps (5{THIN_SPACE}min)"),
        ("memory", 5e8, f"la même mémoire pour un pas, Python et données à part (500{THIN_SPACE}Mo)"),
        ("flops", 2e12, f"les mêmes opérations (2,00{THIN_SPACE}T)"),
        ("tokens", 3e6, f"le même nombre de jetons (3,00{THIN_SPACE}M)"),
    ],
)
def test_every_budget_is_said_in_both_languages(kind: str, amount: float, french: str) -> None:
    assert french in describe_setting(comparison() | {"budget": {"kind": kind, "amount": amount, "words": ""}}).fr


def test_with_nothing_else_to_fear_only_the_data_limit_the_conclusion() -> None:
    (only,) = may_not(comparison())
    assert only.en.startswith("This result holds for these data")


def test_no_established_difference_is_said_as_such() -> None:
    part = comparison()
    part["statistics"]["differences"] = [one | {"different": False} for one in part["statistics"]["differences"]]
    assert "No difference from the others is established" in said(part)


def change(part: dict[str, Any], **values: Any) -> dict[str, Any]:
    return part | values


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [0]}, "A single seed: how far chance moves these numbers is not known"),
        ({"seeds": [0, 1, 2]}, "3 seeds are few"),
        ({"search": None}, "The learning rate was not tuned for each model"),
        ({"budget": None}, "each at its own size (no common budget)"),
        (
            {"models": [model("<b>gru</b>"), model("mamba", flops_per_token=3e6), model("rnn")]},
            "mamba takes 2.5 times as many training operations",
        ),
        ({"models": [model("<b>gru</b>", error=0.04), model("mamba"), model("rnn")]}, "<b>gru</b>: the budget is not met within 2%."),
        ({"models": [model("<b>gru</b>", context=64), model("mamba"), model("rnn")]}, "(64 to 128 tokens)"),
        ({"models": [model("<b>gru</b>"), model("mamba", own_width=512), model("rnn")]}, "the width of mamba (512 → 64) a lot"),
    ],
)
def test_each_reason_for_doubt_is_named(changes: dict[str, Any], words: str) -> None:
    assert words not in said(comparison())
    assert words in said(change(comparison(), **changes))


def test_the_time_that_runs_really_took_is_held_against_a_budget_of_seconds() -> None:
    """It is timing: without timings, which no two comparisons share, nothing is said of it."""
    part = comparison() | {"budget": {"kind": "seconds", "amount": 60.0, "words": "1 min"}}
    assert "The time really taken" not in said(part)
    part["models"][1]["timing"] = part["models"][1]["timing"] | {"seconds": 132.0}
    assert "The time really taken by mamba (2 min) is more than 10% off the budget" in said(part)
    assert "Le temps réellement pris par mamba" in conclusion(part).fr
    assert "The time really taken" not in said(part | {"budget": {"kind": "params", "amount": 2e5, "words": ""}})
    without = [{key: value for key, value in one.items() if key != "timing"} for one in part["models"]]
    assert "The time really taken" not in said(part | {"models": without})


def test_runs_that_were_stopped_early_are_named() -> None:
    part = comparison()
    part["runs"][0]["ended"] = "patience"
    assert "<b>gru</b>: training was stopped before its end" in said(part)


def test_a_rate_at_the_edge_a_curve_that_climbs_a_ceiling_and_a_failure_are_named() -> None:
    part = comparison()
    part["search"]["chosen"]["mamba"] = 1e-2
    for one in part["runs"]:
        if one["model"] == "rnn":
            one["curve"]["score"] = [0.3, 0.4, 0.5, 0.6, 0.8]
    part["runs"][0] |= {"failed": "the loss is not finite", "scores": None}
    part["statistics"]["scores"] |= {"mamba": mean(0.999, 0.0), "<b>gru</b>": mean(0.998, 0.0)}
    words = said(part)
    assert "The rate chosen for mamba is at the edge of those tried" in words
    assert "still improving at the end for rnn" in words
    assert "<b>gru</b> and mamba are at the ceiling" in words
    assert "1 run of <b>gru</b> failed: it is not compared over all seeds" in words


def test_models_that_have_all_learned_nothing_are_not_ranked() -> None:
    part = comparison()
    part["statistics"]["scores"] = {name: mean(0.0, 0.0) for name in part["statistics"]["scores"]}
    assert may(part)[0].en == "All models reach 0.0% (accuracy)."
    assert "No model has learned the task" in said(part)


def test_without_a_score_nothing_is_concluded() -> None:
    part = comparison()
    part["statistics"] = {"scores": {}, "differences": []}
    part["runs"] = [one | {"failed": "out of memory", "scores": None} for one in part["runs"]]
    assert "No model has a score: nothing can be concluded." in said(part)


def test_rows_come_best_first_with_what_they_cost() -> None:
    rows = rows_of(comparison())
    assert [row["model"] for row in rows] == ["mamba", "<b>gru</b>", "rnn"]
    assert rows[0]["with_embeddings"] == 250_000
    columns = [str(name) for name in cost_table(comparison()).columns]
    assert any("writing, tokens/s" in name for name in columns)
    silent = comparison()
    silent["models"] = [one | {"state_bytes": None, "timing": one["timing"] | {"decoding": None}} for one in silent["models"]]
    assert not any("writing" in str(name) for name in cost_table(silent).columns)


def test_what_writing_costs_is_explained_where_models_write() -> None:
    said = lambda part: next(str(block) for block in costs(part) if isinstance(block, Paragraph))
    assert "state: what the model keeps" in said(comparison())
    silent = comparison()
    silent["models"] = [one | {"state_bytes": None} for one in silent["models"]]
    assert "Python and data included." in said(silent)


def test_experts_show_their_active_parameters_apart() -> None:
    part = comparison() | {"models": [model("mixtral", parameters=300_000, active_parameters=120_000)]}
    assert "(active: 120,000)" in str(sizes_table(part).rows)


def test_a_mean_curve_stands_at_the_mean_of_its_places() -> None:
    band = mean_curve(comparison(), "mamba", "seconds")
    assert (band.x[0], band.x[-1]) == (12.0, 52.0)
    assert all(low <= y <= high for low, y, high in zip(band.low, band.y, band.high, strict=True))
    assert mean_curve(comparison(), "nobody", "tokens") is None


def test_the_page_is_drawn_from_json_in_both_languages(tmp_path: Path) -> None:
    part = json.loads(json.dumps(comparison()))
    data = {"name": "ours", "comparisons": [part], "machine": {"jobs": 2}, "versions": {}, "suite": {"recipe": "reviews"}}
    comparison_page(tmp_path / "one.html", data)
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "Ce que cela coûte" in page
    assert "What it costs" in page
    assert "<b>gru</b>" not in page.split("<script")[0]
    two = copy.deepcopy(data)
    two["comparisons"].append(part | {"name": "other"})
    comparison_page(tmp_path / "two.html", two)
    assert "other: curves" in (tmp_path / "two.html").read_text(encoding="utf-8")
    assert "mamba" in comparison_fragment(data)._repr_html_()


def test_names_are_listed_as_people_do() -> None:
    assert join_names(["a"]).en == "a"
    assert (join_names(["a", "b", "c"]).fr, join_names(["a", "b", "c"]).en) == ("a, b et c", "a, b and c")


def test_warm_ups_that_were_tried_have_a_table_of_their_own() -> None:
    part = comparison()
    assert len([block for block in rates(part) if isinstance(block, TableBlock)]) == 1
    part["search"]["trials"] += [{"model": "mamba", "lr": 3e-3, "warmup": share, "score": 0.6 + share} for share in (0.02, 0.3)]
    part["search"]["warmups"] = {"<b>gru</b>": None, "mamba": 0.02, "rnn": None}
    _, table = (block for block in rates(part) if isinstance(block, TableBlock))
    row = next(row for row in table.rows if row[0] == "mamba")
    assert [say(cell, "en") for cell in row[1:] if cell is not None] == ["0.7000", "0.6200", "0.9000", "2%"]
    assert "warm-up" in may(part)[0].en or "warm-up" in describe_setting(part).en
