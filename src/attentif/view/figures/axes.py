"""What is measured along an axis: its name in both languages, its scale, how its numbers are written."""

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

from attentif.errors import UsageError
from attentif.view.figures.labels import percent_axis, plain
from attentif.view.words import Lang, Metric, Number, Text, Words, count, number, percent, with_decimals, with_unit


@dataclass(frozen=True, slots=True)
class Axis:
    title: Words
    log: bool = False
    share: bool = False  # values between 0 and 1, drawn as percentages
    higher_is_better: bool = False  # costs are not
    ticks: Sequence[float] = ()  # where labels stand; by default where plotly likes
    decimals: int | None = None  # of values that are written out; by default three digits of each

    @classmethod
    def of(cls, metric: Metric) -> "Axis":
        return cls(metric.title, share=metric.share, higher_is_better=metric.higher_is_better)

    def logarithmic(self, ticks: Sequence[float] = ()) -> "Axis":
        return replace(self, log=True, ticks=ticks)

    @property
    def scale(self) -> float:
        """What values are multiplied by before they are drawn."""
        return 100.0 if self.share else 1.0

    def plottable(self, values: Iterable[float | None]) -> list[float | None]:
        """Values as they are drawn; what no axis can hold (nan, infinity, 0 on a logarithmic one) becomes a gap."""
        shown = lambda v: v is not None and math.isfinite(v) and not (self.log and v <= 0)
        return [self.scale * float(value) if value is not None and shown(value) else None for value in values]

    def write(self, value: float) -> Number:
        if self.decimals is not None:
            return with_decimals(value, self.decimals)
        return percent(value) if self.share else number(value, 3)

    def layout(self, lang: Lang, values: Iterable[float | None] = ()) -> dict[str, Any]:
        """For `figure(xaxis=...)`; a logarithmic axis is labelled by what it has to show: plotly's own small digits cannot be read far."""
        options: dict[str, Any] = {"title": {"text": plain(self.title, lang)}} | (percent_axis(lang) if self.share else {})
        ticks = list(self.ticks)
        if self.log:
            options |= {"type": "log"}
            ticks = ticks or log_ticks([value / self.scale for value in self.plottable(values) if value is not None])
        if ticks:
            written = [count(int(tick)) if self.ticks and float(tick).is_integer() else self._short(tick) for tick in ticks]
            options |= {"tickvals": [self.scale * tick for tick in ticks], "ticktext": [words[lang] for words in written]}
        return options

    def _short(self, tick: float) -> Number:
        """Round numbers with the prefixes of SI: 20 k, 5 M, 3 G."""
        for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
            if not self.share and tick >= factor:
                return with_unit(number(tick / (1e3 if prefix == "k" else factor), 1), prefix)
        return percent(tick) if self.share else number(tick, 1)


def log_ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten, or 1, 2, 5 between them where there are few; none where they would not help."""
    if not values:
        return []
    low, high = math.log10(min(values)), math.log10(max(values))
    every = max(1, math.ceil((high - low) / 7))
    decades = range(math.floor(low), math.ceil(high) + 1)
    steps = (1, 2, 5) if high - low < 2 else (1,)
    ticks = [step * 10.0**power for power in decades if power % every == 0 for step in steps]
    shown = [tick for tick in ticks if low - 0.05 <= math.log10(tick) <= high + 0.05]
    return shown if len(shown) > 1 else []


STEPS = Axis(Text("pas", "step"))
TOKENS_READ = Axis(Text("jetons lus", "tokens read"))
SECONDS = Axis(Text("secondes", "seconds"))
FLOPS = Axis(Text("opérations (FLOP)", "operations (FLOPs)"))
PARAMETERS = Axis(Text("paramètres", "parameters"))
BYTES = Axis(Text("mémoire (octets)", "memory (bytes)"))
LENGTH = Axis(Text("longueur (jetons)", "length (tokens)"))
DISTANCE = Axis(Text("distance (jetons)", "distance (tokens)"))
RIGHT_ANSWERS = Axis(Text("réponses justes", "right answers"), share=True)
DIFFERENCE = Axis(Text("plus grand écart relatif", "largest relative difference"), log=True)


def require_data(values: Sized, what: str) -> None:
    """Raise ValueError for a figure without data: `require_data(points, "a Pareto front needs a point")`."""
    if not len(values):
        raise UsageError(f"there is nothing to draw: {what}")
