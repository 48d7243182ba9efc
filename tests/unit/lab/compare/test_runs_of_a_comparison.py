"""How runs are known and found again, how rates are tried and chosen, what is read from a finished run."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attentif.config import Layer
from attentif.lab.compare.cache_key import DIGITS, MeasurementFile, RunSpec, digest
from attentif.lab.compare.gather import curve_of, timeless
from attentif.lab.compare.plan import Planned
from attentif.lab.compare.rates import RateTrial, best_value, list_runs, list_trials, next_rates, record_search, shorten
from attentif.lab.compare.suite import SearchConfig, SuitePart
from attentif.training.config import RunConfig, TrainConfig
from attentif.training.load import run_config
from attentif.training.rundir import RunFolder

VALUES: dict[str, Any] = {
    "data": {"name": "reviews"},
    "task": {"kind": "classify"},
    "tokenizer": {"kind": "word"},
    "model": {"base": "encoder-tiny"},
    "train": {"steps": 10},
}


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return run_config(Layer(VALUES, "test"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))


def wanted(config: RunConfig, within: Path, data: str = "d", plugins: tuple[Path, ...] = ()) -> RunSpec:
    return RunSpec("label", "lstm-0", within, config, data, plugins)


def finish(one: RunSpec) -> None:
    path = one.folder.path
    (path / "checkpoints").mkdir(parents=True)
    for name in ("config.toml", "model.safetensors", "results.json", "checkpoints/x", "lock"):
        (path / name).write_text("{}")


def test_a_run_is_known_by_its_configuration_its_data_and_the_program(config: RunConfig, tmp_path: Path) -> None:
    plugin = tmp_path / "my.py"
    plugin.write_text("a = 1")
    same = [wanted(config, tmp_path), wanted(config, tmp_path / "elsewhere")]
    assert len({one.key for one in same}) == 1
    others = [
        wanted(config.replace(train=config.train.replace(seed=1)), tmp_path),
        wanted(config.replace(train=config.train.replace(lr=2e-3)), tmp_path),
        wanted(config.replace(model=config.model.replace(dropout=0.2)), tmp_path),
        wanted(config, tmp_path, data="other"),
        wanted(config, tmp_path, plugins=(plugin,)),
    ]
    assert len({one.key for one in [*same, *others]}) == 1 + len(others)
    assert same[0].folder.path.name == f"lstm-0-{same[0].key[:DIGITS]}"


def test_what_another_comparison_made_is_fetched_without_its_checkpoints(config: RunConfig, tmp_path: Path) -> None:
    first, second = wanted(config, tmp_path / "a"), wanted(config, tmp_path / "b")
    assert second.fetch() is None
    finish(first)
    first.publish()
    assert second.fetch() == first.folder.path.resolve()
    assert second.folder.finished
    assert sorted(path.name for path in second.folder.path.iterdir()) == ["config.toml", "model.safetensors", "results.json"]


def test_a_note_about_a_run_that_is_gone_is_worth_nothing(config: RunConfig, tmp_path: Path) -> None:
    first, second = wanted(config, tmp_path / "a"), wanted(config, tmp_path / "b")
    finish(first)
    first.publish()
    (first.folder.path / "results.json").unlink()
    assert second.fetch() is None
    first.note.write_text("not JSON")
    assert second.fetch() is None


def test_a_trial_that_was_never_scored_is_no_run_and_a_run_will_do_for_a_trial(config: RunConfig, tmp_path: Path) -> None:
    """Even at the same length: a comparison must not find a trial where it looks for scores."""
    trial, run = (replace(wanted(config, tmp_path / name), trial=name == "search") for name in ("search", "runs"))
    assert trial.key == run.key
    finish(trial)
    trial.folder.results.rename(trial.folder.trial)
    assert trial.done
    assert not trial.folder.finished
    trial.publish()
    assert run.fetch() is None
    again = replace(trial, within=tmp_path / "again")
    assert again.fetch() == trial.folder.path.resolve()
    assert again.done
    finish(run)
    assert replace(run, trial=True).done


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "part" / "sizes.json"
    MeasurementFile(file).set("key", {"width": 3})
    assert MeasurementFile(file).get("key") == {"width": 3}
    assert "other" not in MeasurementFile(file)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


@pytest.mark.parametrize("damage", ["", '{"key": ', "[1, 2]", "3"])
def test_of_a_damaged_file_of_measurements_nothing_is_known(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "sizes.json"
    file.write_text(damage)
    assert MeasurementFile(file).get("key") is None
    MeasurementFile(file).set("key", 1)
    assert MeasurementFile(file).get("key") == 1


def test_a_trial_is_a_share_of_a_run_whatever_limits_it() -> None:
    half = shorten(TrainConfig(epochs=3, min_steps=300, minutes=4, eval_every=40), 0.5)
    assert (half.epochs, half.min_steps, half.minutes, half.eval_every) == (1.5, 150, 2, 20)
    assert shorten(TrainConfig(steps=1, eval_every=1.0), 0.25).steps == 1


@pytest.mark.parametrize(("higher", "expected"), [(True, 3e-3), (False, 1e-2)])
def test_the_rate_of_the_best_score_is_chosen_and_failures_are_not(higher: bool, expected: float) -> None:
    scores = {1e-3: 0.5, 3e-3: 0.7, 1e-2: 0.4, 3e-2: None, 5e-3: 0.7}
    rows = [{"lr": rate, "score": score} for rate, score in scores.items()]
    assert best_value(rows, higher) == expected
    assert best_value([{"lr": 1.0, "score": None}], higher) is None


@pytest.mark.parametrize(
    ("losses", "metric", "expected"),
    [((2.1, 1.5, 1.6), "loss", 3e-3), ((1.5, 1.365, 1.359), "loss", 3e-3), ((None, None, None), "exact_match", 1e-3)],
)
def test_rates_at_which_no_score_has_moved_yet_are_told_apart_by_their_loss(
    config: RunConfig, tmp_path: Path, losses: tuple[float | None, ...], metric: str, expected: float
) -> None:
    rates = (1e-3, 3e-3, 1e-2)
    found = []
    for rate, loss in zip(rates, losses, strict=True):
        one = wanted(config.replace(train=config.train.replace(lr=rate)), tmp_path)
        finish(one)
        valid = {"exact_match": 0.0} | ({} if loss is None else {"loss": loss})
        one.folder.results.write_text(json.dumps({"valid": valid, "steps": 10}))
        found.append(RateTrial("transformer", rate, one))
    part = SuitePart("numbers", "numbers", [], [0], budget=None, lr=SearchConfig(rates=list(rates)), notes=[])
    planned = Planned(part, [], "d", {}, "translate", "exact_match", higher_is_better=True, notes=[])
    made = record_search(planned, found, {}, set(), tmp_path)
    assert made is not None
    assert (made["metric"], made["chosen"]) == (metric, {"transformer": expected})


@pytest.mark.parametrize(("losses", "kept"), [((1.5, 1.2, 1.4), 0.0), ((1.2, 1.5, 1.4), None), ((1.5, 1.4, 1.2), 0.3)])
def test_warm_ups_are_tried_at_the_rate_chosen_and_the_best_is_trained_with(
    config: RunConfig, tmp_path: Path, losses: tuple[float, float, float], kept: float | None
) -> None:
    search = SearchConfig(rates=(1e-3, 3e-3), share=0.5, warmups=(0.0, 0.1, 0.3))
    part = SuitePart("numbers", "numbers", [], [0, 1], budget=None, lr=search, notes=[])
    model: Any = SimpleNamespace(name="gru", config=config, lr=None)
    planned = Planned(part, [model], "d", {}, "translate", "accuracy", higher_is_better=True, notes=[])
    trials = list_trials(planned, tmp_path, (), {}, {"gru": 3e-3})
    assert [(trial.lr, trial.warmup) for trial in trials] == [(1e-3, None), (3e-3, None), (3e-3, 0.0), (3e-3, 0.3)]
    assert [trial.wanted.config.train.warmup for trial in trials] == [0.1, 0.1, 0.0, 0.3]  # the recipe's own is not tried twice
    for trial, loss in zip(trials, (2.0, *losses), strict=True):
        finish(trial.wanted)
        trial.wanted.folder.results.write_text(json.dumps({"valid": {"loss": loss}, "steps": 10}))
    made = record_search(planned, trials, {}, set(), tmp_path)
    assert made is not None
    assert (made["chosen"], made["warmups"]) == ({"gru": 3e-3}, {"gru": kept})
    runs = list_runs(planned, made["chosen"], made["warmups"], tmp_path, ())
    assert {run.wanted.config.train.warmup for run in runs} == {0.1 if kept is None else kept}


@pytest.mark.parametrize(
    ("tried", "chosen", "expected"),
    [
        ((1e-3, 3e-3, 1e-2), 3e-3, {}),
        ((1e-3, 3e-3, 1e-2), 1e-2, {"gru": 0.032}),
        ((1e-3, 3e-3, 1e-2), 1e-3, {"gru": 0.00032}),
        ((1e-3, 3e-3, 1e-2, 3e-2), 3e-2, {"gru": 0.095}),
        ((1e-3, 3e-3, 1e-2, 3e-2), 1e-2, {}),  # settled by the one beyond
        ((1e-3, 3e-3, 1e-2, 3e-2, 9e-2, 0.3), 0.3, {}),  # far enough
        ((1e-3, 3e-3, 1e-2), None, {}),
    ],
)
def test_a_best_rate_at_the_edge_asks_for_the_next_one_beyond(tried: tuple[float, ...], chosen: float | None, expected: Any) -> None:
    record = {"chosen": {"gru": chosen}, "trials": [{"model": "gru", "lr": rate} for rate in tried]}
    assert next_rates((1e-3, 3e-3, 1e-2), record) == expected


def test_a_curve_places_scores_among_the_tokens_read(tmp_path: Path) -> None:
    rows = [
        {"step": 5, "split": "valid", "accuracy": 0.5},
        {"step": 10, "tokens": 100, "seconds": 1.0, "loss": 0.9},
        {"step": 10, "split": "valid", "accuracy": 0.6},
        {"step": 15, "split": "valid", "loss": 0.6},
        {"step": 20, "tokens": 300, "seconds": 3.0, "loss": 0.5},
        {"step": 20, "split": "valid", "accuracy": 0.8},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curves, seconds = curve_of(RunFolder(tmp_path), "accuracy", 2.0)
    assert curves["curve"] == {"steps": [5, 10, 20], "tokens": [50, 100, 300], "flops": [100, 200, 600], "score": [0.5, 0.6, 0.8]}
    assert curves["loss"] == {"steps": [10, 20], "tokens": [100, 300], "value": [0.9, 0.5]}
    assert seconds == [0.5, 1.0, 3.0]


def test_without_timings_only_what_no_clock_decides_is_left() -> None:
    found = {"score": 1, "timing": {"seconds": 2}, "runs": [{"seed": 0, "timing": {}}]}
    assert timeless(found) == {"score": 1, "runs": [{"seed": 0}]}


def test_a_network_of_one_seed_has_no_interval_and_no_difference() -> None:
    from attentif.lab.compare.gather import statistics

    planned: Any = SimpleNamespace(
        models=[SimpleNamespace(name="a"), SimpleNamespace(name="b")], metric="accuracy", part=SimpleNamespace(seeds=[0])
    )
    runs = [{"model": name, "seed": 0, "scores": {"accuracy": 0.5}} for name in "ab"]
    found = statistics(planned, runs)
    assert found["scores"]["a"]["value"] == 0.5
    assert not any(one["different"] for one in found["differences"])
