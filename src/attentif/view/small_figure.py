"""Small line figures as SVG, which bring no script into a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from attentif.view.blocks import Drawing
from attentif.view.words import LANGS, Lang, Text, Words, number, say

WIDTH, HEIGHT = 560, 170
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 26, 24  # margins, which hold the labels
COLOURS = {"ours": "var(--ours)", "other": "var(--other)", "muted": "var(--muted)"}

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class SmallCurve:
    """A curve, with a band around it where `low` and `high` are given."""

    name: Words
    points: Sequence[Point]
    colour: Literal["ours", "other", "muted"] = "ours"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def draw_lines(title: Words, lines: Sequence[SmallCurve], first: Words, last: Words) -> Drawing:
    """Curves over a common axis, whose ends are called `first` and `last`."""
    return Drawing(Text(*(_draw(title, lines, (first, last), lang) for lang in LANGS)))


def _draw(title: Words, lines: Sequence[SmallCurve], ends: tuple[Words, Words], lang: Lang) -> str:
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for y in (*(y for _, y in line.points), *line.low, *line.high)]
    across, up = _scale(xs, LEFT, WIDTH - RIGHT), _scale(ys, HEIGHT - BOTTOM, TOP)
    parts = []
    for value in (min(ys), max(ys)):
        parts.append(f'<path d="M{LEFT},{up(value):.1f}H{WIDTH - RIGHT}" stroke="var(--line)"/>')
        parts.append(_label(LEFT - 8, up(value) + 4, say(number(value), lang), "end"))
    parts += [_label(LEFT, HEIGHT - 6, say(ends[0], lang), "start"), _label(WIDTH - RIGHT, HEIGHT - 6, say(ends[1], lang), "end")]
    place = float(LEFT)
    for line in lines:
        colour, path = COLOURS[line.colour], [(across(x), up(y)) for x, y in line.points]
        if line.low and line.high:
            around = [
                *((across(x), up(y)) for (x, _), y in zip(line.points, line.high, strict=True)),
                *((across(x), up(y)) for (x, _), y in reversed([*zip(line.points, line.low, strict=True)])),
            ]
            parts.append(f'<path d="{_path(around)}Z" fill="{colour}" fill-opacity="0.2"/>')
        parts.append(f'<path d="{_path(path)}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>')
        name = say(line.name, lang)
        parts.append(f'<path d="M{place:.0f},12h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(_label(place + 24, 16, name, "start"))
        place += 48 + 7.5 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(say(title, lang))}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" style="display: block; max-width: 100%; height: auto">{"".join(parts)}</svg>'
    )


def _scale(values: Sequence[float], start: float, end: float) -> "_Scale":
    return _Scale(min(values), max(values), start, end)


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="13" fill="var(--muted)" text-anchor="{anchor}">{escape(text)}</text>'
