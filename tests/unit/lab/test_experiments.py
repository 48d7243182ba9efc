"""Every experiment keeps the contract: it measures, decides by numbers, draws in two languages, and would notice if its effect vanished."""

import json
from functools import cache
from typing import Any

import pytest

from attentif.lab.documents import DOCUMENTS
from attentif.lab.experiment import SECONDS, Measurements, Settings
from attentif.lab.experiments import EXPERIMENTS
from attentif.view.words import LANGS

every = pytest.mark.parametrize("name", EXPERIMENTS, scope="module")  # its tests stand together, and one process measures for all of them

# All that these draw is drawn by helpers that test_small.py and test_texts.py try twice, and measuring them again would take a minute
DRAWN_ELSEWHERE = ("L15", "L16", "L18", "L19", "L24", "L26")


@cache
def measured(name: str, without_effect: bool = False) -> Measurements:
    """At its tiny size, through JSON and back, as results are kept."""
    settings = Settings(size="tiny", without_effect=without_effect)
    seen: list[tuple[int, int]] = []
    found = EXPERIMENTS[name].measure(settings, lambda done, total: seen.append((done, total)))
    assert seen, "an experiment says how far it is"
    assert seen[-1][0] == seen[-1][1]
    return json.loads(json.dumps(found, allow_nan=False))


def untimed(value: Any) -> Any:
    """All but seconds, which differ each time."""
    if isinstance(value, dict):
        return {key: untimed(item) for key, item in value.items() if key != SECONDS}
    return [untimed(item) for item in value] if isinstance(value, list) else value


@every
def test_each_part_shows_at_the_tiny_size_what_the_experiment_declares(name: str) -> None:
    one = EXPERIMENTS[name]
    verdict = one.verdict(measured(name))
    assert {*one.tiny} <= {*"+-."}
    assert {*one.tiny} & {*"+-"}, "an experiment of which nothing is declared accepts any outcome"
    assert len(verdict.parts) <= len(one.tiny)  # memory is not measured everywhere
    shown = ["." if declared == "." else "+" if part.holds else "-" for part, declared in zip(verdict.parts, one.tiny, strict=False)]
    assert "".join(shown) == one.tiny[: len(shown)]


@every
def test_the_sentence_of_a_verdict_holds_the_deciding_figures(name: str) -> None:
    verdict = EXPERIMENTS[name].verdict(measured(name))
    for part in verdict.parts:
        for lang in LANGS:
            assert part.value[lang] in verdict.sentence[lang]
            assert "{" not in verdict.sentence[lang]
    json.dumps(verdict.as_data(), allow_nan=False)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in DRAWN_ELSEWHERE], scope="module")
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    first = untimed(measured(name))
    again = EXPERIMENTS[name].measure(Settings(size="tiny"), lambda done, total: None)
    assert untimed(json.loads(json.dumps(again))) == first


@every
def test_without_its_effect_the_verdict_is_another(name: str) -> None:
    """In a part, or in a control: of a claim that does not hold at the tiny size nothing else can change."""
    whole, without = (EXPERIMENTS[name].verdict(measured(name, gone)) for gone in (False, True))
    decisions = lambda verdict: [part.holds for part in (*verdict.parts, *verdict.controls)]
    assert decisions(whole) != decisions(without)


@every
def test_its_figures_are_drawn_in_both_languages(name: str) -> None:
    figures = EXPERIMENTS[name].figures(measured(name))
    assert figures
    for block in figures:
        fr, en = (block.draw(lang=lang) for lang in LANGS)
        assert len(fr.data) == len(en.data) > 0
        assert fr.to_json() != en.to_json(), "axes and legends are words, and words have a language"


@every
def test_it_says_what_it_claims_measures_and_rests_on(name: str) -> None:
    one = EXPERIMENTS[name]
    for text in (one.title, one.claim, one.method, one.sabotage, one.erratum, *one.choices):
        assert text is None or (text.fr and text.en and text.fr != text.en)
    assert set(one.says) <= set(DOCUMENTS)
    assert not one.claim.en.endswith(".")  # it goes into tables and sentences
