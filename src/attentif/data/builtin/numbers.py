"""French number words to English number words, 0 to 999,999,999.

    deux cent trente-quatre mille cinq cent soixante-dix-neuf  ->  two hundred thirty-four thousand five hundred seventy-nine

French spelling is the traditional one (not the hyphens everywhere of 1990): hyphens below one hundred, except around `et`;
`vingt` and `cent` take an s when multiplied and last (quatre-vingts, deux cents), also before the noun million (deux cents
millions) but not before the numeral mille (deux cent mille), which never changes; one thousand is `mille`, one million `un million`.
English is the American form, without "and".

A number is three triples, millions · thousands · units. Some triples are held out of the millions and some of the thousands: training
meets them only in the other places. Test rows say in the role `group` which kind they are: "unseen number" (a new number of familiar
triples) or "unseen combination" (a triple in a place where training never had it).
"""

from random import Random

from attentif.data.builtin.registry import BuiltIn

LIMIT = 1_000_000_000
UNSEEN_NUMBER, UNSEEN_COMBINATION = "unseen number", "unseen combination"
HELD_OUT_TRIPLES = 40  # for each of the two places

_FRENCH_SMALL = [
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix",
    "onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
]  # fmt: skip
_FRENCH_TENS = {20: "vingt", 30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante", 80: "quatre-vingt"}
_ENGLISH_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def french(number: int) -> str:
    """`number` in French words: french(280) = "deux cent quatre-vingts"."""
    millions, thousands, units = triples(number)
    words = []
    if millions:
        words += [_french_triple(millions, plural=True), "million" if millions == 1 else "millions"]
    if thousands:
        words += ["mille"] if thousands == 1 else [_french_triple(thousands, plural=False), "mille"]
    if units or not words:
        words.append(_french_triple(units, plural=True))
    return " ".join(words)


def english(number: int) -> str:
    """`number` in English words: english(280) = "two hundred eighty"."""
    millions, thousands, units = triples(number)
    words = [f"{_english_triple(triple)} {name}" for triple, name in ((millions, "million"), (thousands, "thousand")) if triple]
    if units or not words:
        words.append(_english_triple(units))
    return " ".join(words)


def triples(number: int) -> tuple[int, int, int]:
    """(millions, thousands, units), each 0 to 999."""
    if not 0 <= number < LIMIT:
        raise ValueError(f"{number} is not between 0 and {LIMIT - 1:,}")
    return number // 1_000_000, number // 1_000 % 1_000, number % 1_000


def _french_triple(triple: int, *, plural: bool) -> str:
    """1 to 999 (and 0 alone); `plural`: vingt and cent may take their s here, which they may not before mille."""
    hundreds, rest = divmod(triple, 100)
    words = []
    if hundreds:
        s = "s" if plural and hundreds > 1 and not rest else ""
        words.append("cent" + s if hundreds == 1 else f"{_FRENCH_SMALL[hundreds]} cent{s}")
    if rest or not hundreds:
        words.append("quatre-vingts" if plural and rest == 80 else _french_below_hundred(rest))
    return " ".join(words)


def _french_below_hundred(rest: int) -> str:
    if rest < 20:
        return _FRENCH_SMALL[rest]
    ten = rest // 10 * 10 if rest // 10 not in (7, 9) else rest // 10 * 10 - 10  # seventy counts on from sixty, ninety from eighty
    unit = rest - ten
    if unit == 0:
        return _FRENCH_TENS[ten]
    joint = " et " if unit in (1, 11) and ten != 80 else "-"
    return _FRENCH_TENS[ten] + joint + _FRENCH_SMALL[unit]


def _english_triple(triple: int) -> str:
    hundreds, rest = divmod(triple, 100)
    words = [f"{_ENGLISH_SMALL[hundreds]} hundred"] if hundreds else []
    if 0 < rest < 20 or not triple:
        words.append(_ENGLISH_SMALL[rest])
    elif rest:
        ten, unit = _ENGLISH_TENS[rest // 10 - 2], rest % 10
        words.append(f"{ten}-{_ENGLISH_SMALL[unit]}" if unit else ten)
    return " ".join(words)


def load(seed: int = 0, *, train: int = 30_000, valid: int = 1_000, test: int = 2_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `source` and `target`; `test` also has `group`. Every number below one hundred is in `train`."""
    rng = Random(f"numbers {seed}")
    first = min(100, train)
    wanted = {UNSEEN_NUMBER: train - first + valid + test - test // 2, UNSEEN_COMBINATION: test // 2}
    familiar, combinations = _draw(rng, wanted, *hold_out_triples(seed))
    rng.shuffle(familiar)  # short numbers run out early: without this the last rows, the test, would have none
    training, unseen = [*range(first), *familiar[: train - first]], familiar[train - first :]
    tested = [(number, UNSEEN_NUMBER) for number in unseen[valid:]] + [(number, UNSEEN_COMBINATION) for number in combinations]
    rng.shuffle(training)
    rng.shuffle(tested)
    splits = {"train": _pairs(training), "valid": _pairs(unseen[:valid]), "test": _pairs([number for number, _ in tested])}
    splits["test"]["group"] = [group for _, group in tested]
    return splits


def _draw(rng: Random, wanted: dict[str, int], held_millions: frozenset[int], held_thousands: frozenset[int]) -> list[list[int]]:
    """Distinct numbers of one hundred and more, as many of each group as wanted."""
    pools: dict[str, list[int]] = {group: [] for group in wanted}
    seen = set(range(100))  # emptying a triple can lead below one hundred, where every number belongs to train
    while any(len(pools[group]) < wanted[group] for group in wanted):
        number = _sample(rng)
        millions, thousands, _ = triples(number)
        group = UNSEEN_COMBINATION if millions in held_millions or thousands in held_thousands else UNSEEN_NUMBER
        if number not in seen and len(pools[group]) < wanted[group]:
            seen.add(number)
            pools[group].append(number)
    return list(pools.values())


def hold_out_triples(seed: int = 0) -> tuple[frozenset[int], frozenset[int]]:
    """The triples that training never has as millions, and those it never has as thousands; no triple is in both sets."""
    chosen = Random(f"numbers held out {seed}").sample(range(2, 1000), 2 * HELD_OUT_TRIPLES)
    return frozenset(chosen[:HELD_OUT_TRIPLES]), frozenset(chosen[HELD_OUT_TRIPLES:])


def _sample(rng: Random) -> int:
    """All magnitudes: three to nine digits, each as often; one number in four has an empty triple (two million five)."""
    digits = rng.randrange(3, 10)
    number = rng.randrange(10 ** (digits - 1), 10**digits)
    if rng.random() < 0.25:
        place = rng.choice((1, 1_000))
        number -= number // place % 1_000 * place
    return number


def _pairs(rows: list[int]) -> dict[str, list[str]]:
    return {"source": [french(number) for number in rows], "target": [english(number) for number in rows]}


SET = BuiltIn(
    name="numbers",
    roles=("source", "target"),
    description="French number words to English number words, 0 to 999,999,999",
    size="30,000 train, 1,000 valid, 2,000 test pairs",
    synthetic=True,
    load=load,
)
