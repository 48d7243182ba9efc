"""Finding the size at which a model takes what it is given.

What a model takes grows with its width w, nearly as c w^b. Widths are multiples of 8 (then, where nothing else lands, of 4, 2, 1).
Between a width that takes too little and one that takes too much, the next one to try is where a power law through both says. When no
width lies between them, the hidden layers of the feed-forward networks close the gap, from the side on which they must change least.
Depth is kept, unless the narrowest model is still too large.

What is measured may be disturbed by whatever else the machine does: where a narrower model came out dearer than a wider one and no size
was found, the search begins again, a few times, before it gives up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from attentif.errors import UsageError
from attentif.lab.budget.sizes import Sizing
from attentif.models import ModelConfig

GRAINS = (8, 4, 2, 1)
NARROWEST, WIDEST = 8, 16384
LEAST_HIDDEN, MOST_HIDDEN = 0.5, 2.0  # factor on hidden layers, beyond which it would be another architecture
LITTLE = 1.1  # factor on hidden layers that need not be bettered
ATTEMPTS = 3  # searches by measurements that contradict each other
CLOSE = 0.1  # share of the tolerance within which a counted amount need not come closer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model of some size."""

    config: ModelConfig
    amount: float
    width: int
    layers: int
    hidden: float = 1.0  # factor on the hidden layers
    loose: bool = False  # heads may be of another width


class Search:
    """`run` gives the model whose amount is the wanted one."""

    def __init__(
        self,
        sizing: Sizing,
        *,
        wanted: float,
        tolerance: float,
        amount: Callable[[ModelConfig], float],
        counted: bool,
        words: Callable[[float], str],
        say: Callable[[str], None],
    ) -> None:
        self.sizing, self.wanted, self.tolerance, self.amount = sizing, wanted, tolerance, amount
        self.counted, self.words, self.say = counted, words, say  # counted: exact, and worth coming closer than the tolerance
        self.known: dict[tuple[int, int, bool], Candidate | None] = {}
        self.tried: list[Candidate] = []

    def run(self) -> Candidate:
        for attempt in range(1, ATTEMPTS + 1):
            if (found := self._once()) is not None:
                return found
            if not self._is_noisy() or attempt == ATTEMPTS:
                break
            self.say("a narrower model took more than a wider one: something else uses this machine; once more")
            self.known, self.tried = {}, []
        raise self._unreachable()

    def _once(self) -> Candidate | None:
        for layers in range(self.sizing.layers, 0, -1):
            if (found := self._at_depth(layers)) is not None:
                return found
            if not all(candidate.amount > self.wanted for candidate in self.tried):
                break  # not for want of narrowness
        return None

    def _is_noisy(self) -> bool:
        """Whether measurements contradict each other: at one depth, a narrower model that takes more than a wider one."""
        if self.counted:
            return False
        plain = [one for one in self.tried if one.hidden == 1]
        pairs = [(a, b) for a in plain for b in plain if a.layers == b.layers and a.width < b.width]
        return any(narrow.amount > wide.amount for narrow, wide in pairs)

    def _at_depth(self, layers: int) -> Candidate | None:
        """The best model of this depth, or None where none is near enough."""
        low, high = self._bracket(layers, GRAINS[0])
        best = self._choose_width(low, high)
        for loose in (False, True):  # odd widths first, then heads of another width
            for grain in GRAINS:
                if best is None and (loose or grain < GRAINS[0]):
                    low, high = self._bracket(layers, grain, low, high, loose)
                    best = self._choose_width(low, high, last=grain == 1)
        return best

    def _choose_width(self, low: Candidate | None, high: Candidate | None, last: bool = False) -> Candidate | None:
        """Of two neighbouring widths, with or without other hidden layers, the one to take; `last`: the tolerance is enough."""
        around = [candidate for candidate in (low, high) if candidate is not None]
        nearest = self._nearest(around)
        if nearest is None:
            return None
        enough = self.tolerance * (1 if last or not self.counted else CLOSE if self.sizing.fine else 0.5)
        if self._error(nearest) <= enough:
            return nearest
        if not self.sizing.fine:
            return None
        tuned: list[Candidate] = []
        for candidate in sorted(around, key=self._error):
            if (found := self._tune_hidden(candidate)) is not None:
                tuned.append(found)
                if abs(math.log(found.hidden)) <= math.log(LITTLE):
                    break
        if tuned:
            return min(tuned, key=lambda candidate: abs(math.log(candidate.hidden)))
        return nearest if self._error(nearest) <= self.tolerance else None

    def _bracket(
        self, layers: int, grain: int, low: Candidate | None = None, high: Candidate | None = None, loose: bool = False
    ) -> tuple[Candidate | None, Candidate | None]:
        """The widest model that takes too little and the narrowest that takes too much, among multiples of the grain, or None."""
        guess = low.width if low else high.width if high else self.sizing.model.width
        if low is not None and high is not None:
            guess = self._between(low, high)
        while (found := self._nearest_width(guess, layers, grain, low, high, loose)) is not None:
            if not self.counted and self._error(found) <= self.tolerance / 2:
                return found, None
            if found.amount <= self.wanted:
                low = found
            else:
                high = found
            if low is not None and high is not None:
                guess = self._between(low, high)
            else:
                guess = round(found.width * min(max((self.wanted / found.amount) ** 0.5, 1 / 8), 8))
        return low, high

    def _between(self, low: Candidate, high: Candidate) -> int:
        """Where a power law through both takes what is wanted, a little towards the middle."""
        span = math.log(high.amount / low.amount)
        share = math.log(self.wanted / low.amount) / span if span > 0 else 0.5
        share = min(max(share, 0.1), 0.9)
        return round(low.width * (high.width / low.width) ** share)

    def _nearest_width(
        self, guess: int, layers: int, grain: int, low: Candidate | None, high: Candidate | None, loose: bool
    ) -> Candidate | None:
        """The width nearest to the guess that the model can have, strictly between the two."""
        first = grain * ((low.width if low else NARROWEST - 1) // grain + 1)
        last = grain * (-(-(high.width if high else WIDEST + 1) // grain) - 1)
        middle = min(max(grain * round(guess / grain), first), last)
        for distance in range(max(middle - first, last - middle) // grain + 1):
            for width in dict.fromkeys((middle - distance * grain, middle + distance * grain)):
                if first <= width <= last and (found := self._measure(width, layers, loose)) is not None:
                    return found
        return None

    def _measure(self, width: int, layers: int, loose: bool) -> Candidate | None:
        key = (width, layers, loose)
        if key not in self.known:
            config = self.sizing.at(width, layers=layers, loose=loose)
            found = None if config is None else Candidate(config, self.amount(config), width, layers, loose=loose)
            self.known[key] = None if found is None else self._describe_attempt(found)
        return self.known[key]

    def _tune_hidden(self, base: Candidate) -> Candidate | None:
        """Other hidden layers at this width: the amount is linear in their factor, but for rounding to finer and finer grains."""
        enough = self.tolerance * (CLOSE if self.counted else 1)
        best, other = base, self._with_hidden(base, 1.25 if base.amount < self.wanted else 0.8, GRAINS[0])
        for grain in GRAINS:
            if other is None or other.amount == base.amount:
                return None
            factor = base.hidden + (self.wanted - base.amount) * (other.hidden - base.hidden) / (other.amount - base.amount)
            if not LEAST_HIDDEN <= factor <= MOST_HIDDEN:
                return None
            made = self._with_hidden(base, factor, grain)
            if made is None:
                continue
            best = min(best, made, key=self._error)
            if self._error(best) <= enough:
                break
            other = other if made.amount == base.amount else made
        return best if self._error(best) <= self.tolerance else None

    def _with_hidden(self, base: Candidate, factor: float, grain: int) -> Candidate | None:
        factor = self.sizing.round_factor(base.width, factor, grain)
        if factor == base.hidden:
            return base
        config = self.sizing.at(base.width, hidden=factor, layers=base.layers, grain=grain, loose=base.loose)
        return None if config is None else self._describe_attempt(replace(base, config=config, amount=self.amount(config), hidden=factor))

    def _describe_attempt(self, candidate: Candidate) -> Candidate:
        self.tried.append(candidate)
        self.say(
            f"{_size(candidate)}: {self.words(candidate.amount) if math.isfinite(candidate.amount) else 'more than there is memory for'}"
        )
        return candidate

    def _error(self, candidate: Candidate) -> float:
        return abs(candidate.amount / self.wanted - 1)

    def _nearest(self, candidates: list[Candidate]) -> Candidate | None:
        return min(candidates, key=self._error, default=None)

    def _unreachable(self) -> UsageError:
        name, nearest = self.sizing.model.base or "this model", self._nearest(self.tried)
        if nearest is None:
            return UsageError(f"{name} cannot be had at any other size: its parts contradict each other at every width")
        why = "; measurements contradict each other, for something else uses this machine" if self._is_noisy() else ""
        return UsageError(
            f"{name} cannot be brought to {self.words(self.wanted)}: the nearest size that it can have takes "
            f"{self.words(nearest.amount)} ({_size(nearest)}){why}"
        )


def _size(candidate: Candidate) -> str:
    hidden = "" if candidate.hidden == 1 else f", hidden layers × {candidate.hidden:.2f}"
    return f"width {candidate.width}, {candidate.layers} layer{'s' if candidate.layers > 1 else ''}{hidden}"
