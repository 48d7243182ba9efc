"""A profile counts, fits and says rightly; no test looks at a time."""

import json
from dataclasses import replace

import pytest

import attentif
from attentif.errors import UsageError
from attentif.lab.profile import Profile, lengths_of
from attentif.lab.profile.crossings import crossing, round_length, sentence
from attentif.lab.profile.measure import LeftOut, Point, extrapolate, first_look
from attentif.lab.profile.report import ProfileSettings
from attentif.lab.profile.subjects import subject
from attentif.view.words import Text

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
NOISE = (1.0, 1.01, 0.99)


def made(**laws) -> Profile:
    """Two subjects whose times follow laws that are known."""
    points = []
    for place, (name, law) in enumerate(laws.items()):
        noise = NOISE[place:] + NOISE[:place]  # rounds in which now the one, now the other is slowed down
        points += [Point(name, "training", n, tuple(factor * law(n) for factor in noise), 1000 * n) for n in LENGTHS]
    left = [LeftOut("slow", "training", 8192, Text("trop long", "too long"))]
    subjects = {name: {"kind": "mixer", "parameters": 10} for name in laws}
    return Profile(ProfileSettings(64, LENGTHS, 3, 2.0, True, 1), subjects, points, left, "a machine")


QUADRATIC_AND_LINEAR = made(attention=lambda n: 1e-9 * n**2, mamba=lambda n: 1.5e-6 * n)


def test_lengths_double_or_are_listed():
    assert lengths_of("128:1024") == (128, 256, 512, 1024)
    assert lengths_of("100:250") == (100, 200, 250)
    assert lengths_of("7,3") == (3, 7)
    assert lengths_of("5") == (5,)
    for wrong in ("", "a:b", "9:3", "1:2:3", "-4,2", "0:8", "1.5"):
        with pytest.raises(UsageError, match=r"lengths"):
            lengths_of(wrong)


def test_exponents_are_those_of_the_laws():
    slopes = {fit.subject: fit.law for fit in QUADRATIC_AND_LINEAR.fits if fit.quantity == "seconds"}
    assert slopes["attention"].exponent == pytest.approx(2)
    assert slopes["mamba"].exponent == pytest.approx(1)
    memory = QUADRATIC_AND_LINEAR.fit("mamba", "training", "bytes")
    assert memory is not None
    assert memory.law.exponent == pytest.approx(1)
    assert memory.lengths == (1024, 4096)


def test_the_crossing_is_where_the_laws_meet_and_said_in_both_languages():
    (found,) = [one for one in QUADRATIC_AND_LINEAR.crossings if one.quantity == "seconds"]
    assert (found.winner, found.loser) == ("mamba", "attention")
    assert found.since == pytest.approx(1500, rel=1e-3)
    assert found.low < 1500 < found.high
    said = sentence(found)
    assert said.en.startswith("From 1,500 tokens on (95% interval ")
    assert said.en.endswith("mamba trains faster than attention on this machine (2.7 times at 4,096).")
    assert said.fr.startswith("À partir de 1\u202f500 jetons")
    assert "mamba apprend plus vite qu’attention" in said.fr


def test_one_that_is_always_faster_has_no_crossing():
    (found,) = [one for one in made(a=lambda n: n * 1e-6, b=lambda n: n * 2e-6).crossings if one.quantity == "seconds"]
    assert found.since is None
    assert sentence(found).en == "From 128 to 4,096 tokens, a trains faster than b on this machine (2.0 times at 4,096)."


def test_rounds_that_disagree_decide_nothing():
    tie = {128: (1.0, 2.0, 1.5), 256: (1.0, 2.0, 1.5)}
    other = {128: (1.5, 1.5, 1.5), 256: (1.5, 1.5, 1.5)}
    assert crossing(("a", "b"), tie, other, "training") is None
    assert crossing(("a", "b"), {128: (1.0, 1.0)}, {128: (2.0, 2.0)}, "training") is None


def test_a_win_that_begins_after_lengths_that_decide_nothing_is_said_from_there_on():
    first = {128: (1.0, 2.0, 1.5), 256: (1.0, 1.0, 1.0), 512: (1.0, 1.0, 1.0)}
    found = crossing(("a", "b"), first, dict.fromkeys(first, (1.5, 1.5, 1.5)), "training")
    assert (found.winner, found.since, found.low, found.high) == ("a", 256, 128, 256)


def test_lengths_are_said_with_two_digits():
    assert [round_length(n) for n in (7.4, 64, 1934, 16384)] == [7, 64, 1900, 16000]


def test_a_slow_length_is_foreseen():
    assert extrapolate({512: 1.0}, 1024) == 0
    assert extrapolate({512: 1.0, 1024: 4.0}, 2048) == pytest.approx(16)
    assert extrapolate({256: 1.0, 1024: 16.0}, 2048) == pytest.approx(64)
    assert extrapolate({512: 1.0, 1024: 100.0}, 2048) == pytest.approx(800)  # nothing is worse than cubic


def test_lengths_beyond_a_limit_are_left_out_and_said(monkeypatch):
    one = subject("attention", width=16, longest=64)
    found, left = first_look(one, "training", (16, 32, 64), limit=0.0)
    assert list(found) == [16, 32]
    assert "limit" in left.reason.en
    monkeypatch.setattr("attentif.lab.profile.measure.available_memory", lambda: 10)
    found, left = first_look(one, "decoding", (16, 32, 64), limit=9.0)
    assert list(found) == [16, 32]
    assert "memory" in left.reason.en
    assert "libres" in left.reason.fr


def test_it_is_measured_from_python_and_shown_everywhere(tmp_path):
    found = attentif.profile(["attention", "mamba", "encoder-tiny"], lengths=[8, 16, 32], width=32, repeats=2)
    assert {(point.subject, point.phase) for point in found.points} >= {("mamba", "decoding"), ("encoder-tiny", "training")}
    assert any(one.subject == "encoder-tiny" and one.phase == "decoding" for one in found.left_out)
    data = json.loads(json.dumps(found.as_data()))
    assert all(len(point["seconds"]) == 2 for point in data["points"])
    page = found.save(tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Temps et mémoire selon la longueur" in page
    assert "Time and memory against length" in page
    assert "class=templates" in found._repr_html_()


def test_a_busy_machine_is_said_before_any_time():
    assert QUADRATIC_AND_LINEAR.warning() is None
    assert "4.5 programs for each core" in replace(QUADRATIC_AND_LINEAR, busy=4.5).warning().en


def test_nothing_to_measure_and_twins_are_refused():
    with pytest.raises(UsageError, match="needs something to measure"):
        attentif.profile([])
    with pytest.raises(UsageError, match="named twice"):
        attentif.profile(["mamba", "mamba"], lengths=[8], width=16)


def test_the_page_of_laws_has_the_words_first(tmp_path):
    page = QUADRATIC_AND_LINEAR.save(tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.index("From 1,500 tokens on") < page.index("<section>")
    assert "trop long" in page
