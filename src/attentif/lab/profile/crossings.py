"""From which length on one subject beats another: between the last measured length at which it lost and the next at which it wins.

Between those two neighbours both times are taken as power laws (straight lines in logarithms), and the interval is that of the fit to
every round. A length at which the middle half of the rounds' ratios lies on both sides of 1 decides nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from attentif.lab.fit import crossover
from attentif.lab.profile.measure import Phase
from attentif.lab.timing import Timing
from attentif.view.words import Text, Words, count, number, than, with_decimals

Quantity = Literal["seconds", "bytes"]
Rounds = Mapping[int, Sequence[float]]  # what was measured at each length, one value a round
TIE = 0.02  # of memory, measured once: a difference that small decides nothing


@dataclass(frozen=True, slots=True)
class Crossing:
    """Who wins at the longest common length, since which length, and by how much."""

    winner: str
    loser: str
    phase: Phase
    quantity: Quantity
    lengths: tuple[int, int]  # the shortest and the longest at which both were measured
    ratio: float  # the loser's over the winner's at the longest
    since: float | None  # None: at every length
    low: float = 0.0  # 95 % interval of `since`, kept between the neighbours that were measured where it is open
    high: float = math.inf


def leader(first: Sequence[float], second: Sequence[float]) -> int:
    """1 where the first takes less, −1 where the second does, 0 where that cannot be told."""
    if len(first) == 1:
        difference = math.log(second[0] / first[0])
        return 0 if abs(difference) < TIE else 1 if difference > 0 else -1
    ratio = Timing({1: list(first), 2: list(second)}).ratio(2, 1)
    return 1 if ratio.low > 1 else -1 if ratio.high < 1 else 0


def crossing(names: tuple[str, str], first: Rounds, second: Rounds, phase: Phase, quantity: Quantity = "seconds") -> Crossing | None:
    """None where they have fewer than two lengths in common, or where nobody wins at the longest."""
    lengths = sorted(n for n in first if n in second and min(*first[n], *second[n]) > 0)
    leads = {n: leader(first[n], second[n]) for n in lengths}
    if len(lengths) < 2 or not leads[lengths[-1]]:
        return None
    side = leads[lengths[-1]]
    (winner, fast), (loser, slow) = [(names[0], first), (names[1], second)][:: 1 if side > 0 else -1]
    longest = lengths[-1]
    ratio = median(slow[longest]) / median(fast[longest])
    given = (winner, loser, phase, quantity, (lengths[0], longest), ratio)
    behind = [n for n in lengths if leads[n] == -side]
    if not behind:
        undecided = [n for n in lengths if not leads[n]]
        if not undecided:
            return Crossing(*given, None)
        after = next(n for n in lengths if n > undecided[-1])
        return Crossing(*given, after, undecided[-1], after)  # somewhere between the last that decides nothing and the next
    before = behind[-1]
    after = next(n for n in lengths if n > before and leads[n] == side)
    n = [place for place in (before, after) for _ in fast[place]]
    found = crossover(n, [*fast[before], *fast[after]], [*slow[before], *slow[after]])
    if found is None or not before <= found.n <= after:
        return Crossing(*given, math.sqrt(before * after), before, after)
    return Crossing(*given, found.n, max(found.low, before), min(found.high, after))


VERBS: dict[tuple[Phase, Quantity], Text] = {
    ("forward", "seconds"): Text("lit plus vite", "reads faster"),
    ("training", "seconds"): Text("apprend plus vite", "trains faster"),
    ("decoding", "seconds"): Text("écrit plus vite", "writes faster"),
    ("forward", "bytes"): Text("lit avec moins de mémoire", "reads in less memory"),
    ("training", "bytes"): Text("apprend avec moins de mémoire", "trains in less memory"),
    ("decoding", "bytes"): Text("écrit avec moins de mémoire", "writes in less memory"),
}


def round_length(length: float) -> int:
    """Two digits: 1,934 is said as 1,900."""
    digits = max(0, math.floor(math.log10(length)) - 1)
    return round(length / 10**digits) * 10**digits


def sentence(found: Crossing) -> Text:
    """ "From 1,900 tokens on (95% interval 1,700 to 2,000), mamba trains faster than attention on this machine: 4.1 times at 16,384." """
    verb = VERBS[found.phase, found.quantity]
    times = with_decimals(found.ratio, 1) if found.ratio < 10 else number(found.ratio, 2)
    common: dict[str, Words] = {
        "winner": found.winner,
        "verb": verb,
        "than": than(found.loser),
        "ratio": times,
        "last": count(found.lengths[1]),
    }
    if found.since is None:
        return Text(
            "De {first} à {last} jetons, {winner} {verb} {than} sur cette machine ({ratio} fois à {last}).",
            "From {first} to {last} tokens, {winner} {verb} {than} on this machine ({ratio} times at {last}).",
        ).with_(first=count(found.lengths[0]), **common)
    return Text(
        "À partir de {since} jetons (intervalle à 95 % : {low} à {high}), {winner} {verb} {than} sur cette machine "
        "({ratio} fois à {last}).",
        "From {since} tokens on (95% interval {low} to {high}), {winner} {verb} {than} on this machine ({ratio} times at {last}).",
    ).with_(
        since=count(round_length(found.since)), low=count(round_length(max(found.low, 1))), high=count(round_length(found.high)), **common
    )
