"""What an experiment is: a claim of the course, a measurement, and the verdict that its numbers give.

A claim is taken apart into the things that it says; each is decided by one figure and one limit, both printed:

    at_most(Text("à {steps} pas, il reste {value} du gradient", "after {steps} steps {value} of the gradient is left"), left, 0.01)

All parts hold: the claim *holds*. None does: it *does not hold*. Otherwise it *holds in part*. A figure that depends on chance comes with
its interval over seeds; where the limit lies inside it, the part is undecided. A claim of which no part holds, and some are undecided, is
*undecided*.

Controls are figures of the same form that say whether the measurement is sound: that the model had learned, that the effect is gone
where it should be. They are shown apart and do not decide.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from attentif.tasks.base import Progress
from attentif.tasks.seeds import mean
from attentif.view.blocks import FigureBlock, Score
from attentif.view.words import LANGS, Lang, Number, Text, Words, Writer, number, percent, times_ten_to

Size = Literal["tiny", "normal", "full"]
SIZES: tuple[Size, ...] = ("tiny", "normal", "full")
Measurements = dict[str, Any]  # plain data, as JSON keeps it; what was timed stands under the key SECONDS
SECONDS = "seconds"
MANY = 1e5  # from here on a figure is written with a power of ten
LEAST = 1e-300  # a factor that underflowed
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a measurement is made."""

    size: Size = "normal"  # tiny: seconds, for tests; normal: about a minute on two cores; full: longer
    seed: int = 0
    more: int = 1  # times the seeds of the size
    minutes: float = 0.0  # that may be spent on more seeds while a part is undecided
    without_effect: bool = False  # measure the sabotaged variant: the verdict must then be another

    def pick(self, *, tiny: V, normal: V, full: V) -> V:
        """The value that belongs to the size."""
        return {"tiny": tiny, "normal": normal, "full": full}[self.size]

    def seeds(self, *, tiny: int, normal: int, full: int) -> range:
        """So many seeds, from the given one on; those of another `seed` are all different."""
        count = min(1000, self.more * self.pick(tiny=tiny, normal=normal, full=full))
        return range(1000 * self.seed, 1000 * self.seed + count)


class Outcome(StrEnum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    OPEN = "undecided"

    @property
    def words(self) -> Text:
        return OUTCOMES[self]


OUTCOMES = {
    Outcome.HOLDS: Text("vérifié", "holds"),
    Outcome.IN_PART: Text("vérifié en partie", "holds in part"),
    Outcome.NOT: Text("non vérifié", "does not hold"),
    Outcome.OPEN: Text("indécis", "undecided"),
}
EXPECTED = {True: Text("au moins {limit}", "at least {limit}"), False: Text("au plus {limit}", "at most {limit}")}
BETWEEN: dict[Lang, str] = {"fr": " ; ", "en": "; "}
DECIDED = {True: Text("oui", "yes"), False: Text("non", "no"), None: Text("indécis", "undecided")}


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a claim says, and the figure that decides it. Made by `at_least` and `at_most`."""

    said: Text  # with {value} where the figure goes
    figure: Score
    limit: float
    at_least: bool
    write: Writer

    @property
    def holds(self) -> bool | None:
        """None: the limit lies within the interval."""
        bounds = [bound for bound in (self.figure.low, self.figure.high) if bound is not None] or [self.figure.value]
        kept = {bound >= self.limit if self.at_least else bound <= self.limit for bound in bounds}
        return kept.pop() if len(kept) == 1 else None

    @property
    def seeds_needed(self) -> float:
        """How many times the seeds would decide, if mean and deviation stay: intervals shrink as 1/√n."""
        value, low, high = self.figure.value, self.figure.low, self.figure.high
        if self.holds is not None or low is None or high is None:
            return 1.0
        end = low if value > self.limit else high
        return ((end - value) / max(abs(self.limit - value), LEAST)) ** 2 if value != self.limit else math.inf

    @property
    def value(self) -> Number:
        """The figure as the sentence has it: "0.32 [0.30; 0.34]"."""
        value, low, high = self.figure.value, self.figure.low, self.figure.high
        if low is None or high is None:
            return self.write(value)
        if self.write is percent:
            high = max(value, min(1.0, high))  # shares, and what one is ahead of another, end at 100 %
        fr, en = (f"{self.write(value)[lang]} [{self.write(low)[lang]}{BETWEEN[lang]}{self.write(high)[lang]}]" for lang in LANGS)
        return Number(fr, en)

    @property
    def found(self) -> Text:
        return self.said.with_(value=self.value)

    @property
    def expected(self) -> Text:
        return EXPECTED[self.at_least].with_(limit=_round(self.write(self.limit)))

    @property
    def decided(self) -> Text:
        return DECIDED[self.holds]

    @property
    def sentence(self) -> Text:
        """What was found, what was expected, and whether it is so."""
        found, expected, decided = self.found, self.expected, self.decided
        return Text(f"{found.fr} ({expected.fr} attendu : {decided.fr})", f"{found.en} ({expected.en} expected: {decided.en})")

    def as_data(self) -> dict[str, Any]:
        """As JSON keeps it."""
        interval = {"value": self.figure.value, "low": self.figure.low, "high": self.figure.high}
        return {"said": words(self.sentence), **interval, "limit": self.limit, "at_least": self.at_least, "holds": self.holds}


def three_digits(value: float) -> Number:
    if abs(value) < MANY or not math.isfinite(value):
        return number(value, 3)
    mantissa, exponent = f"{value:.2e}".split("e")
    return times_ten_to(mantissa, int(exponent))


def _round(limit: Number) -> Number:
    """Limits are round numbers: 0.5, not 0.500."""
    fr, en = (re.sub(rf"{mark}0+(?!\d)|({mark}\d*[1-9])0+(?!\d)", r"\1", words) for mark, words in ((",", limit.fr), (r"\.", limit.en)))
    return Number(fr, en)


def at_least(said: Text, figure: float | Score, limit: float, write: Writer = three_digits) -> Part:
    return Part(said, figure if isinstance(figure, Score) else Score(figure), limit, True, write)


def at_most(said: Text, figure: float | Score, limit: float, write: Writer = three_digits) -> Part:
    return Part(said, figure if isinstance(figure, Score) else Score(figure), limit, False, write)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the numbers say of a claim."""

    parts: Sequence[Part]
    remark: Text | None = None  # figures worth knowing that decide nothing: seconds, say
    controls: Sequence[Part] = ()  # whether the measurement is sound; no part of the claim

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a verdict needs at least one figure that decides it")

    @property
    def outcome(self) -> Outcome:
        decided = [part.holds for part in self.parts]
        if any(decided):
            return Outcome.HOLDS if all(decided) else Outcome.IN_PART
        return Outcome.OPEN if None in decided else Outcome.NOT

    @property
    def undecided(self) -> list[Part]:
        """The parts that more seeds may decide."""
        return [part for part in self.parts if part.holds is None]

    @property
    def sentence(self) -> Text:
        """The deciding figures, in words."""
        fr, en = (BETWEEN[lang].join(part.sentence[lang] for part in self.parts) for lang in LANGS)
        return capital(Text(f"{fr}.", f"{en}."))

    def as_data(self) -> dict[str, Any]:
        """As JSON keeps it."""
        found = {"parts": [part.as_data() for part in self.parts], "controls": [part.as_data() for part in self.controls]}
        remark = words(self.remark) if self.remark else None
        return {"outcome": str(self.outcome), "sentence": words(self.sentence), **found, "remark": remark}


def capital(text: Text) -> Text:
    """As the beginning of a sentence."""
    return Text(*(text[lang][:1].upper() + text[lang][1:] for lang in LANGS))


def words(text: Text) -> dict[str, str]:
    return {lang: text[lang] for lang in LANGS}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One claim, and how it is measured. A module of `lab/experiments/` calls its own EXPERIMENT."""

    number: int
    title: Text
    claim: Text
    says: Mapping[int, str]  # the words of the documents (`documents.py`), by their number; empty where none says it in so many words
    method: Text  # what is measured, how, and what decides
    sabotage: Text  # what `Settings.without_effect` takes away
    tiny: str  # what each part shows at the tiny size: "+" holds, "-" does not, "." is left to the clock or to chance
    measure: Callable[[Settings, Progress], Measurements]
    verdict: Callable[[Measurements], Verdict]
    figures: Callable[[Measurements], Sequence[FigureBlock]]
    papers: Sequence[str] = ()
    erratum: Text | None = None  # where a document errs
    remarks: Sequence[Words] = ()  # how far the conclusion goes
    choices: Sequence[Text] = ()  # what was chosen after results had been seen; printed with every verdict

    @property
    def name(self) -> str:
        return f"L{self.number}"


def over_seeds(values: Sequence[float]) -> Score:
    """The mean over seeds with its 95 % interval (Student's t)."""
    found = mean(values)
    return Score(found.value, *found.bounds)


def ratio_over_seeds(values: Sequence[float]) -> Score:
    """The same for ratios and other factors, which are never negative: the geometric mean, and the interval of the logarithms."""
    of_logs = over_seeds([math.log(max(value, LEAST)) for value in values])
    value, low, high = (None if bound is None else math.exp(bound) for bound in (of_logs.value, of_logs.low, of_logs.high))
    return Score(value or 0.0, low, high)
