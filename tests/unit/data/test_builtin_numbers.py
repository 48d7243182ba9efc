"""The number words against tables written by hand, and the splits against what they promise."""

import re

import pytest

from attentif.data.builtin import numbers

FRENCH = {
    0: "zéro",
    1: "un",
    10: "dix",
    11: "onze",
    16: "seize",
    17: "dix-sept",
    20: "vingt",
    21: "vingt et un",
    22: "vingt-deux",
    31: "trente et un",
    41: "quarante et un",
    51: "cinquante et un",
    59: "cinquante-neuf",
    60: "soixante",
    61: "soixante et un",
    69: "soixante-neuf",
    70: "soixante-dix",
    71: "soixante et onze",
    72: "soixante-douze",
    77: "soixante-dix-sept",
    79: "soixante-dix-neuf",
    80: "quatre-vingts",
    81: "quatre-vingt-un",
    88: "quatre-vingt-huit",
    90: "quatre-vingt-dix",
    91: "quatre-vingt-onze",
    99: "quatre-vingt-dix-neuf",
    100: "cent",
    101: "cent un",
    180: "cent quatre-vingts",
    200: "deux cents",
    201: "deux cent un",
    280: "deux cent quatre-vingts",
    300: "trois cents",
    381: "trois cent quatre-vingt-un",
    999: "neuf cent quatre-vingt-dix-neuf",
    1_000: "mille",
    1_001: "mille un",
    1_080: "mille quatre-vingts",
    1_100: "mille cent",
    1_200: "mille deux cents",
    2_000: "deux mille",
    21_000: "vingt et un mille",
    71_000: "soixante et onze mille",
    80_000: "quatre-vingt mille",
    80_080: "quatre-vingt mille quatre-vingts",
    100_000: "cent mille",
    200_000: "deux cent mille",
    234_579: "deux cent trente-quatre mille cinq cent soixante-dix-neuf",
    1_000_000: "un million",
    1_000_001: "un million un",
    1_001_000: "un million mille",
    2_000_000: "deux millions",
    21_000_000: "vingt et un millions",
    80_000_000: "quatre-vingts millions",
    81_000_000: "quatre-vingt-un millions",
    200_000_000: "deux cents millions",
    200_200_200: "deux cents millions deux cent mille deux cents",
    280_280_280: "deux cent quatre-vingts millions deux cent quatre-vingt mille deux cent quatre-vingts",
    999_999_999: "neuf cent quatre-vingt-dix-neuf millions neuf cent quatre-vingt-dix-neuf mille neuf cent quatre-vingt-dix-neuf",
}
ENGLISH = {
    0: "zero",
    7: "seven",
    12: "twelve",
    20: "twenty",
    21: "twenty-one",
    40: "forty",
    99: "ninety-nine",
    100: "one hundred",
    101: "one hundred one",
    280: "two hundred eighty",
    1_000: "one thousand",
    1_015: "one thousand fifteen",
    234_579: "two hundred thirty-four thousand five hundred seventy-nine",
    1_000_000: "one million",
    2_000_005: "two million five",
    10_300_000: "ten million three hundred thousand",
    999_999_999: "nine hundred ninety-nine million nine hundred ninety-nine thousand nine hundred ninety-nine",
}
SMALL = {numbers.english(n): n for n in (*range(20), *range(20, 100, 10))}


@pytest.fixture(scope="module")
def splits() -> dict[str, dict[str, list[str]]]:
    return numbers.load(0)


def value(words: str) -> int:
    """The number that English words say, read back by another way than they were written."""
    total = group = 0
    for word in re.split("[ -]", words):
        if word == "hundred":
            group *= 100
        elif word in ("thousand", "million"):
            total, group = total + group * {"thousand": 1_000, "million": 1_000_000}[word], 0
        else:
            group += SMALL[word]
    return total + group


@pytest.mark.parametrize(("number", "words"), FRENCH.items())
def test_french_words_are_the_traditional_spelling(number: int, words: str) -> None:
    assert numbers.french(number) == words


@pytest.mark.parametrize(("number", "words"), ENGLISH.items())
def test_english_words_are_the_american_form(number: int, words: str) -> None:
    assert numbers.english(number) == words


def test_every_number_below_ten_thousand_has_its_own_words() -> None:
    assert len({numbers.french(n) for n in range(10_000)}) == len({numbers.english(n) for n in range(10_000)}) == 10_000
    assert all(value(numbers.english(n)) == n for n in range(10_000))


@pytest.mark.parametrize("number", [-1, numbers.LIMIT])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="not between"):
        numbers.french(number)


def test_source_and_target_say_the_same_number(splits: dict[str, dict[str, list[str]]]) -> None:
    for columns in splits.values():
        for source, target in zip(columns["source"], columns["target"], strict=True):
            assert numbers.french(value(target)) == source


def test_sizes_are_those_asked_for_and_no_number_is_in_two_splits(splits: dict[str, dict[str, list[str]]]) -> None:
    assert {split: len(columns["source"]) for split, columns in splits.items()} == {"train": 30_000, "valid": 1_000, "test": 2_000}
    assert len({source for columns in splits.values() for source in columns["source"]}) == 33_000


def test_the_seed_decides_everything() -> None:
    small = {"train": 300, "valid": 50, "test": 60}
    assert numbers.load(3, **small) == numbers.load(3, **small)
    assert numbers.load(3, **small) != numbers.load(4, **small)


def test_all_magnitudes_are_represented_in_every_split(splits: dict[str, dict[str, list[str]]]) -> None:
    for columns in splits.values():
        digits = {len(str(value(target))) for target in columns["target"]}
        assert digits >= set(range(3, 10))
    assert {value(target) for target in splits["train"]["target"]} >= set(range(100))


def test_held_out_triples_never_train_in_their_place_and_do_in_the_others(splits: dict[str, dict[str, list[str]]]) -> None:
    millions, thousands = numbers.hold_out_triples(0)
    assert not millions & thousands
    seen = [numbers.triples(value(target)) for split in ("train", "valid") for target in splits[split]["target"]]
    places = [set(place) for place in zip(*seen, strict=True)]
    assert not places[0] & millions
    assert not places[1] & thousands
    training = [set(place) for place in zip(*[numbers.triples(value(target)) for target in splits["train"]["target"]], strict=True)]
    assert millions <= training[1] & training[2]
    assert thousands <= training[0] & training[2]


def test_groups_say_which_test_rows_have_an_unseen_combination(splits: dict[str, dict[str, list[str]]]) -> None:
    millions, thousands = numbers.hold_out_triples(0)
    test = splits["test"]
    for target, group in zip(test["target"], test["group"], strict=True):
        high, middle, _ = numbers.triples(value(target))
        assert (group == numbers.UNSEEN_COMBINATION) == (high in millions or middle in thousands)
    assert test["group"].count(numbers.UNSEEN_NUMBER) == test["group"].count(numbers.UNSEEN_COMBINATION) == 1_000
