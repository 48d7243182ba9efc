"""A verdict follows from its parts; an interval that contains the limit decides nothing."""

import pytest

from attentif.lab.experiment import Outcome, Part, Settings, Verdict, at_least, at_most, over_seeds, ratio_over_seeds
from attentif.view.blocks import Score
from attentif.view.words import Text, percent

SAID = Text("il reste {value}", "{value} is left")
YES, NO, OPEN = at_least(SAID, 2.0, 1.0), at_most(SAID, 2.0, 1.0), at_least(SAID, Score(1.0, 0.9, 1.1), 1.0)


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ([YES], Outcome.HOLDS),
        ([YES, YES], Outcome.HOLDS),
        ([YES, NO], Outcome.IN_PART),
        ([NO, NO], Outcome.NOT),
        ([OPEN], Outcome.OPEN),
        ([YES, OPEN], Outcome.IN_PART),
        ([NO, OPEN], Outcome.OPEN),
    ],
)
def test_the_outcome_follows_from_the_parts(parts: list[Part], outcome: Outcome) -> None:
    assert Verdict(parts).outcome is outcome


@pytest.mark.parametrize(("part", "control", "outcome"), [(NO, YES, Outcome.NOT), (YES, NO, Outcome.HOLDS), (OPEN, YES, Outcome.OPEN)])
def test_controls_are_shown_and_do_not_decide(part: Part, control: Part, outcome: Outcome) -> None:
    verdict = Verdict([part], controls=[control])
    assert verdict.outcome is outcome
    (shown,) = verdict.as_data()["controls"]
    assert shown["holds"] is control.holds


def test_a_part_is_decided_by_its_whole_interval() -> None:
    assert at_least(SAID, Score(2.0, 1.5, 2.5), 1.0).holds is True
    assert at_least(SAID, Score(0.5, 0.2, 0.9), 1.0).holds is False
    assert OPEN.holds is None


def test_the_sentence_says_the_figure_the_limit_and_the_decision_in_both_languages() -> None:
    said = Verdict([at_most(SAID, Score(0.032, 0.03, 0.034), 0.5, percent), NO]).sentence
    assert said.en == "3.2% [3.0%; 3.4%] is left (at most 50% expected: yes); 2.00 is left (at most 1 expected: no)."
    assert said.fr.startswith(
        "Il reste 3,2\u202f% [3,0\u202f%\u202f; 3,4\u202f%] (au plus 50\u202f% attendu\xa0: oui)\u202f; il reste 2,00"
    )


def test_an_interval_of_a_share_ends_at_all_of_them() -> None:
    assert at_least(SAID, Score(0.99, 0.95, 1.03), 0.9, percent).value.en == "99.0% [95.0%; 100.0%]"
    assert at_least(SAID, Score(0.99, 0.95, 1.03), 0.9).value.en == "0.990 [0.950; 1.03]"  # a ratio may be anything


def test_a_verdict_needs_a_figure() -> None:
    with pytest.raises(ValueError, match="at least one figure"):
        Verdict([])


def test_seeds_of_two_measurements_have_nothing_in_common() -> None:
    assert not set(Settings(seed=0).seeds(tiny=3, normal=8, full=20)) & set(Settings(seed=1).seeds(tiny=3, normal=8, full=20))


def test_ratios_have_an_interval_that_is_never_negative() -> None:
    score = ratio_over_seeds([1e-4, 1e-6, 1e-2])
    assert score.value == pytest.approx(1e-4)
    assert 0 < score.low < score.value < score.high  # type: ignore[operator]
    assert over_seeds([1.0]).low is None
