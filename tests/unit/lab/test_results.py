"""Results are kept one by one, read again, and measured anew where they no longer serve."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attentif.errors import RunError, UsageError
from attentif.lab.book import describe_seeds, write_book, write_one
from attentif.lab.documents import DOCUMENTS
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.experiments import EXPERIMENTS
from attentif.lab.results import load_result, measure, measure_all, save_result
from attentif.tasks.base import Progress
from attentif.training.progress import Silent
from attentif.training.signals import StoppedError
from attentif.view.words import Text

calls: list[tuple[str, Settings]] = []


def fake(number: int, *, stops: bool = False) -> Experiment:
    def measure(settings: Settings, progress: Progress) -> Measurements:
        if stops:
            raise KeyboardInterrupt
        calls.append((f"L{number}", settings))
        progress(1, 1)
        return {"value": 2.0 + settings.seed}

    measure.__module__ = __name__
    model = EXPERIMENTS["L5"]
    verdict = lambda found: Verdict([at_least(Text("vaut {value}", "is {value}"), found["value"], 1.0)])
    return replace(model, number=number, measure=measure, verdict=verdict, figures=lambda found: [])


def test_a_place_where_nothing_can_be_kept_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, message in ((tmp_path / "file", "is no folder"), (tmp_path / "file" / "below", "cannot be made: not a directory")):
        with pytest.raises(UsageError, match=message):
            measure_all([fake(91)], Settings(), place, Silent())
    assert not calls


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_a_result_is_read_as_it_was_kept(tmp_path: Path) -> None:
    result = measure(fake(90), Settings(seed=3), Silent())
    save_result(result, tmp_path)
    assert load_result(result.experiment, tmp_path) == result
    data = json.loads((tmp_path / "L90.json").read_text(encoding="utf-8"))
    assert data["verdict"]["outcome"] == "holds"
    assert {"date", "duration", "versions", "machine", "seed", "size", "source"} <= data.keys()


def test_all_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    one, two = fake(90), fake(91)
    with pytest.raises(StoppedError, match="stopped during L91") as stopped:
        measure_all([one, fake(91, stops=True)], Settings(), tmp_path, Silent())
    assert stopped.value.exit_code == 130
    assert [name for name, _ in calls] == ["L90"]
    results = measure_all([one, two], Settings(), tmp_path, Silent())
    assert [name for name, _ in calls] == ["L90", "L91"]
    assert [result.experiment.name for result in results] == ["L90", "L91"]
    assert not list(tmp_path.glob(".*"))


def test_what_was_measured_otherwise_is_measured_again(tmp_path: Path) -> None:
    one = fake(90)
    measure_all([one], Settings(), tmp_path, Silent())
    measure_all([one], Settings(seed=1), tmp_path, Silent())
    measure_all([one], Settings(seed=1, size="full"), tmp_path, Silent())
    measure_all([one], Settings(seed=1), tmp_path, Silent())  # the full one serves
    assert len(calls) == 3
    measure_all([one], Settings(seed=1), tmp_path, Silent(), again=True)
    assert len(calls) == 4


def noisy(mean: float, seeds: list[int]) -> Experiment:
    """Of which each seed gives one of four values around the mean."""

    def measure(settings: Settings, progress: Progress) -> Measurements:
        drawn = settings.seeds(tiny=4, normal=4, full=4)
        seeds.append(len(drawn))
        progress(1, 1)
        return {"values": [mean + (-1.0, 1.0, -0.5, 0.5)[seed % 4] for seed in drawn]}

    measure.__module__ = __name__
    verdict = lambda found: Verdict([at_least(Text("vaut {value}", "is {value}"), over_seeds(found["values"]), 0.0)])
    return replace(EXPERIMENTS["L5"], number=93, measure=measure, verdict=verdict, figures=lambda found: [])


def test_seeds_are_added_until_every_part_is_decided() -> None:
    seeds: list[int] = []
    result = measure(noisy(0.5, seeds), Settings(minutes=10), Silent())
    assert len(seeds) == 2
    assert seeds[0] == 4
    assert result.settings.more == seeds[1] / 4 > 1
    assert result.verdict.outcome == "holds"
    assert "times the usual seeds" in describe_seeds(result).en


def test_without_minutes_an_undecided_part_stays_undecided(tmp_path: Path) -> None:
    seeds: list[int] = []
    one = noisy(0.5, seeds)
    [result] = measure_all([one], Settings(), tmp_path, Silent())
    assert seeds == [4]
    assert result.verdict.outcome == "undecided"
    [result] = measure_all([one], Settings(minutes=10), tmp_path, Silent())  # the stored one had no time for more seeds
    assert result.verdict.outcome == "holds"
    assert load_result(one, tmp_path) == result
    measure_all([one], Settings(minutes=20), tmp_path, Silent())
    assert len(seeds) == 3, "what is decided serves for any time"


def test_a_part_on_its_limit_spends_the_time_and_stays_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 30))  # each measurement takes 30 s
    monkeypatch.setattr("attentif.lab.results.time.monotonic", lambda: float(next(clock)))
    seeds: list[int] = []
    result = measure(noisy(0.0, seeds), Settings(minutes=5), Silent())
    assert result.verdict.outcome == "undecided"
    assert seeds[:2] == [4, 36], "nine times 30 s are left of five minutes"


def test_a_result_of_an_experiment_that_has_changed_does_not_serve(tmp_path: Path) -> None:
    result = measure(fake(90), Settings(), Silent())
    save_result(replace(result, source="0" * 64), tmp_path)
    stale = load_result(result.experiment, tmp_path)
    assert stale is not None
    assert not stale.fresh
    measure_all([result.experiment], Settings(), tmp_path, Silent())
    assert len(calls) == 2


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"size": 3}'])
def test_a_damaged_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "L90.json").write_text(text)
    with pytest.raises(RunError, match="no measurement of L90"):
        load_result(fake(90), tmp_path)


def test_pages_hold_the_verdict_in_both_languages(tmp_path: Path) -> None:
    result = measure(EXPERIMENTS["L5"], Settings(size="tiny"), Silent())
    write_one(tmp_path / "one.html", result)
    write_book(tmp_path / "book.html", [result, result])
    for file in ("one.html", "book.html"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        for part in (*result.verdict.parts, *result.verdict.controls):
            assert part.value.fr in text
            assert part.value.en in text
        assert DOCUMENTS[1] in text, "a quotation's number has its document on the same page"
    assert "Le cours, mesuré" in text


def test_pages_and_files_hold_the_choices_made_after_seeing_results(tmp_path: Path) -> None:
    chosen = Text("choisi après coup", "chosen by hindsight")
    result = measure(replace(fake(90), choices=[chosen]), Settings(), Silent())
    write_one(tmp_path / "one.html", result)
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert chosen.fr in page
    assert chosen.en in page
    assert result.as_data()["choices"] == [{"fr": chosen.fr, "en": chosen.en}]


def test_the_example_of_the_documentation_keeps_the_contract() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lab.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    one = names["EXPERIMENT"]
    found, without = (one.measure(Settings(size="tiny", without_effect=gone), lambda done, total: None) for gone in (False, True))
    assert str(one.verdict(found).outcome) == "holds"
    assert str(one.verdict(without).outcome) == "does not hold"
    assert one.figures(found)[0].draw(lang="fr").data
