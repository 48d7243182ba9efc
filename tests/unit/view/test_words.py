import math
from datetime import date

import pytest

from attentif.view.render import both
from attentif.view.words import (
    LANGS,
    METRICS,
    THIN_SPACE,
    Text,
    big,
    count,
    day,
    duration,
    metric,
    number,
    percent,
    size,
    than,
    with_decimals,
    with_unit,
)


def test_a_sentence_is_filled_in_in_its_own_language():
    sentence = Text("{n} exemples de {what}", "{n} examples of {what}").with_(n=count(12345), what=Text("test", "testing"))
    assert sentence == Text(f"12{THIN_SPACE}345 exemples de test", "12,345 examples of testing")


def test_french_is_typeset_where_a_text_is_made():
    assert Text("L'eau : « bue » ; 5 % ?", "").fr == "L’eau\u00a0: «\u00a0bue\u00a0»\u202f; 5\u202f%\u202f?"


def test_a_day_is_written_in_words():
    assert day(date(2026, 5, 1)) == Text("1er mai 2026", "1 May 2026")


def test_braces_in_a_value_are_left_alone():
    assert Text("« {x} »", "“{x}”").with_(x="{0} {y}") == Text("« {0} {y} »", "“{0} {y}”")


@pytest.mark.parametrize(
    ("written", "fr", "en"),
    [
        (number(0.97312), "0,9731", "0.9731"),
        (number(12345.6), f"12{THIN_SPACE}346", "12,346"),
        (number(-2.5, 2), "−2,5", "−2.5"),
        (number(0), "0", "0"),
        (number(3e-7), f"3{THIN_SPACE}×{THIN_SPACE}10⁻⁷", "3 × 10⁻⁷"),
        (number(-1.25e-12, 3), f"−1,25{THIN_SPACE}×{THIN_SPACE}10⁻¹²", "−1.25 × 10⁻¹²"),
        (number(math.nan), "—", "—"),
        (number(math.inf), "∞", "∞"),
        (percent(0.97349), f"97,3{THIN_SPACE}%", "97.3%"),
        (percent(math.nan), "—", "—"),
        (size(812_000_000), f"812{THIN_SPACE}Mo", "812 MB"),
        (size(12), f"12{THIN_SPACE}o", "12 B"),
        (duration(4.25), f"4,2{THIN_SPACE}s", "4.2 s"),
        (duration(600), f"10{THIN_SPACE}min", "10 min"),
        (duration(2 * 3600 + 300), f"2{THIN_SPACE}h{THIN_SPACE}05{THIN_SPACE}min", "2 h 05 min"),
        (with_decimals(-0.04, 1), "0,0", "0.0"),
        (big(60_000), f"60,0{THIN_SPACE}k", "60.0 k"),
        (with_unit(number(42.1, 3), "ms"), f"42,1{THIN_SPACE}ms", "42.1 ms"),
    ],
)
def test_numbers_are_written_the_way_each_language_writes_them(written, fr, en):
    assert (written.fr, written.en) == (fr, en)


def test_no_line_of_a_french_page_ends_between_a_number_and_its_percent():
    shown = both(Text("à 95 % près", "at 95 %"))
    assert f"à 95{THIN_SPACE}% près" in shown
    assert "at 95 %" in shown


def test_every_known_metric_has_a_name_in_both_languages():
    assert all(of.name[lang] for of in METRICS.values() for lang in LANGS)


def test_a_metric_of_a_plug_in_is_called_by_its_key():
    assert metric("word_error").name == Text("word error", "word error")


def test_french_drops_its_vowel_before_another():
    assert than("attention") == Text("qu’attention", "than attention")
    assert than("Encoder-tiny").fr == "qu’Encoder-tiny"
    assert than("mamba").fr == "que mamba"
    assert than("").fr == "que "
