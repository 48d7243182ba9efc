"""What several seeds allow to be said.

    mean          x̄ ± t_{n-1} s / √n                                             over n seeds (Student 1908)
    difference    the same of d = x - y, taken seed by seed                      (paired t): what both share in a seed falls out
    several       p-values adjusted together: of m, the k-th smallest by m - k + 1, never below the one before   (Holm 1979)
    examples      the score of test examples drawn again with replacement        (bootstrap, Efron 1979)

Seeds say what another training of the same model on the same data would give; examples say what another test set would. They answer
different questions, and neither contains the other.

The paired t-test is kept for any number of seeds. A permutation of signs needs no normal distribution, but with n seeds it knows
no p-value below 2 / 2^n: with five nothing is ever different, and after a correction over six comparisons not with eight.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from attentif.tasks.metrics import interval
from attentif.tasks.seeds import mean
from attentif.view.words import Text, Words, number, than

ALPHA = 0.05
EFFECTS = ((0.2, "negligible"), (0.5, "small"), (0.8, "medium"), (math.inf, "large"))  # Cohen 1988, upper ends
EFFECT_WORDS = {
    "negligible": Text("négligeable", "negligible"),
    "small": Text("petit", "small"),
    "medium": Text("moyen", "medium"),
    "large": Text("grand", "large"),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """first - second over the same seeds; what cannot be known from one seed is nan."""

    first: str
    second: str
    value: float
    low: float  # 95 % interval of this difference by itself, not corrected for several comparisons
    high: float
    p: float  # of a paired t-test
    adjusted: float  # the same after Holm's correction over all comparisons made together
    effect: float  # the mean difference in deviations of one difference (Cohen's d of the pairs)
    runs: int

    @property
    def different(self) -> bool:
        """At the 5 % level, corrected."""
        return self.adjusted < ALPHA

    def words(self, *, higher_is_better: bool) -> Text:
        """One sentence: which is better and by how much, or that these seeds do not tell."""
        better, worse = (self.first, self.second) if (self.value > 0) == higher_is_better else (self.second, self.first)
        bounds = sorted((abs(self.low), abs(self.high)))
        filled: dict[str, Words] = {
            "better": better,
            "than": than(worse),
            "gap": number(abs(self.value), 3),
            "low": number(self.low if not self.different else bounds[0], 3),
            "high": number(self.high if not self.different else bounds[1], 3),
            "p": number(self.adjusted, 2),
            "first": self.first,
            "second": self.second,
            "runs": str(self.runs),
        }
        if math.isnan(self.p):
            return Text(
                "{first} et {second} : une seule graine ne permet aucune conclusion.",
                "{first} and {second}: one seed allows no conclusion.",
            ).with_(**filled)
        if not self.different:
            return Text(
                "{first} et {second} : {runs} graines ne les départagent pas (différence entre {low} et {high} à 95 %, p = {p}).",
                "{first} and {second}: {runs} seeds do not tell them apart (difference between {low} and {high} at 95%, p = {p}).",
            ).with_(**filled)
        return Text(
            "{better} fait mieux {than} de {gap} ({low} à {high} à 95 %, p = {p}, {runs} graines ; effet {size}).",
            "{better} does better {than} by {gap} ({low} to {high} at 95%, p = {p}, {runs} seeds; {size} effect).",
        ).with_(size=EFFECT_WORDS[effect_size(self.effect)], **filled)


def compare(scores: Mapping[str, Sequence[float]]) -> list[Difference]:
    """Every pair of models by their scores seed by seed (all in the same order of seeds), corrected together."""
    if len({len(values) for values in scores.values()}) > 1:
        raise ValueError("differences are taken seed by seed: every model needs a score for each seed")
    pairs = list(combinations(scores, 2))
    gaps = [np.asarray(scores[first], dtype=np.float64) - np.asarray(scores[second], dtype=np.float64) for first, second in pairs]
    chances = [paired_p(gap) for gap in gaps]
    found = []
    for (first, second), gap, p, adjusted in zip(pairs, gaps, chances, holm(chances), strict=True):
        about = mean([float(value) for value in gap])
        effect = about.value / about.deviation if about.deviation else math.copysign(math.inf, about.value) if about.value else 0.0
        found.append(Difference(first, second, about.value, about.low, about.high, p, adjusted, effect, about.runs))
    return found


def paired_p(differences: ArrayLike) -> float:
    """Two-sided chance of a mean at least this far from zero, if there were none; nan of a single difference."""
    gap = np.asarray(differences, dtype=np.float64)
    if len(gap) < 2:
        return math.nan
    error = float(gap.std(ddof=1)) / math.sqrt(len(gap))
    if error == 0:
        return 0.0 if gap[0] else 1.0
    from scipy.special import stdtr

    return float(2 * stdtr(len(gap) - 1, -abs(float(gap.mean())) / error))


def holm(p: Sequence[float]) -> list[float]:
    """p-values of several comparisons, each fit to be compared with 5 %; nan stays nan and counts as none."""
    order = sorted((place for place, value in enumerate(p) if not math.isnan(value)), key=lambda place: p[place])
    adjusted, largest = list(map(float, p)), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[place]))
        adjusted[place] = largest
    return adjusted


def bootstrap(examples: Sequence[ArrayLike], score: Callable[..., float], *, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """95 % interval of `score(*examples)` over test examples drawn again; arrays of one length are drawn together, so that
    `bootstrap([right_a, right_b], lambda a, b: a.mean() - b.mean())` is that of a paired difference."""
    arrays = [np.asarray(array) for array in examples]
    size = len(arrays[0]) if arrays else 0
    if not size or any(len(array) != size for array in arrays):
        raise ValueError("examples are drawn together: there must be some, and as many in every array")
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(0, size, size) for _ in range(draws))
    return interval([score(*(array[rows] for array in arrays)) for rows in drawn])


def effect_size(effect: float) -> str:
    """Cohen's names: negligible, small, medium, large."""
    return next(name for most, name in EFFECTS if abs(effect) <= most)
