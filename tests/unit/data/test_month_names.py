"""Dates whose month is a word: read in one way, or not at all."""

import pytest

from attentif.data.month_names import MONTH, in_digits


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1er mars 2021", "2021-03-01 00:00:00"),
        ("12 août 2021 à 14h05", "2021-08-12 14:05:00"),
        ("3 DÉC. 2020 23:59:58", "2020-12-03 23:59:58"),
        ("févr. 2021", "2021-02-01 00:00:00"),
        ("12-Mar-2021", "2021-03-12 00:00:00"),
        ("March 12, 2021 9:30", "2021-03-12 09:30:00"),
        ("Sept 1st 2020", "2020-09-01 00:00:00"),
        ("may 12 2021", "2021-05-12 00:00:00"),
    ],
)
def test_a_month_in_letters_is_read_in_french_and_in_english(text: str, date: str) -> None:
    assert in_digits(text) == date


@pytest.mark.parametrize(
    "text",
    ["2021-03-12", "2021-03-12T10:00", "Mar-21", "12 mars 21", "12 Mar 12 2021", "smarch 2021", "March 122021", "mars", "", "12 2021"],
)
def test_what_could_be_read_in_two_ways_or_names_no_month_is_left_alone(text: str) -> None:
    assert in_digits(text) is None


def test_no_name_of_a_month_stands_for_two() -> None:
    from attentif.data.month_names import NAMES

    assert len(MONTH) == sum(map(len, NAMES))
