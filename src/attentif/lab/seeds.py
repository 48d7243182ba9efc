"""Over several seeds: curves with their 95 % interval at each place, and differences of pairs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attentif.lab.experiment import over_seeds
from attentif.lab.timing import middle_half
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import Band, IntervalEstimate, intervals
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, Words


def seed_band(
    name: Words, x: Sequence[float], values: Sequence[Sequence[float]], of: Callable[[Sequence[float]], Score] = over_seeds
) -> Band:
    """`values` has, for each place of x, a value for each seed; `of` is `over_seeds`, or `ratio_over_seeds` for factors."""
    scores = [of(own) for own in values]
    low, high = ([score.value if (bound := getattr(score, end)) is None else bound for score in scores] for end in ("low", "high"))
    return Band(name, x, [score.value for score in scores], low, high)


def over_rounds(values: Sequence[float]) -> Score:
    """What was timed in several rounds: the median, and the quartiles. It goes with `seed_band` too."""
    if len(values) < 2:
        return Score(values[0])
    middle = middle_half(list(values))
    return Score(middle.median, middle.low, middle.high)


def lead(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """By how much one is ahead of the other, seed by seed: pairs share their seed."""
    return [one - other for one, other in zip(ours, theirs, strict=True)]


def estimate(name: Words, values: Sequence[float], *, stressed: bool = True) -> IntervalEstimate:
    """A row of `intervals`."""
    return IntervalEstimate(name, over_seeds(values), values, stressed)


def right_answers(
    title: Text, names: Mapping[str, Words], answers: Mapping[str, Sequence[float]], chance: float, about: Text
) -> FigureBlock:
    """The share of right answers of several models, the first one stressed."""
    first = next(iter(names))
    estimates = [estimate(words, answers[name], stressed=name == first) for name, words in names.items()]
    axis = RIGHT_ANSWERS
    return FigureBlock(title, partial(intervals, estimates, axis, reference=chance), intervals_caption(about))


def intervals_caption(about: Text) -> Text:
    """What stands under `intervals` that have a line at chance."""
    return Text(
        f"{about.fr} Intervalle à 95 % ; les traits sont les graines, la ligne pointillée le hasard.",
        f"{about.en} 95 % interval; ticks are seeds, the dotted line is chance.",
    )
