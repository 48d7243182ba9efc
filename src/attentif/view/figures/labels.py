"""Labels that plotly shows as they are written."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from attentif.view.words import THIN_SPACE, Lang, Metric, Words, say

ZERO_WIDTH = "\u200b"


def plain(words: Words, lang: Lang) -> str:
    """Plotly reads some HTML in labels; a user's `<b>` must be seen, not obeyed."""
    return escape(say(words, lang), quote=False)


def distinct(tokens: Sequence[str]) -> list[str]:
    """Names for the categories of an axis: plotly would merge the two "le" of a sentence, invisible spaces keep them apart."""
    seen: Counter[str] = Counter()
    names = []
    for token in tokens:
        names.append(escape(token, quote=False) + ZERO_WIDTH * seen[token])
        seen[token] += 1
    return names


def percent_axis(lang: Lang) -> dict[str, Any]:
    return {"ticksuffix": f"{THIN_SPACE}%" if lang == "fr" else "%"}


def metric_axis(metric: Metric, lang: Lang) -> dict[str, Any]:
    """The axis of a metric; shares are drawn as percentages, so their values must be multiplied by `metric_scale`."""
    return percent_axis(lang) if metric.share else {}


def metric_scale(metric: Metric) -> float:
    return 100.0 if metric.share else 1.0
