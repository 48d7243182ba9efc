"""What a page is made of: plain dataclasses, filled by tasks and training, drawn by `page`.

None of them knows HTML, plotly or torch, so that building a report costs nothing until it is written.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attentif.view.words import Lang, Text, Words


@dataclass(frozen=True, slots=True)
class Score:
    """A value and, where known, its bootstrap interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_share(self, *, of_errors: bool = False) -> "Score":
        """Clip the interval of a proportion to [0, 1] (error rates may exceed 1)."""
        if self.low is None or self.high is None:
            return self
        return Score(self.value, max(0.0, self.low), self.high if of_errors else max(self.value, min(1.0, self.high)))


@dataclass(frozen=True, slots=True)
class Contender:
    """A system and its scores by metric; `ours` is the run that the page is about."""

    name: Words
    scores: Mapping[str, Score]
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Words
    kind: Literal["plain", "lead", "note", "warning"] = "plain"
    link: str = ""  # where the whole paragraph leads


@dataclass(frozen=True, slots=True)
class TokensBlock:
    """A text whose tokens are shaded by |value| / whole; negative values take the other colour."""

    tokens: Sequence[str]
    values: Sequence[float]
    caption: Words | None = None
    whole: float | None = None  # the value of the deepest shade; by default the largest one

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.values):
            raise ValueError(f"{len(self.tokens)} tokens with {len(self.values)} values")


@dataclass(frozen=True, slots=True)
class Legend:
    """What the two colours of `TokensBlock` mean."""

    positive: Words
    negative: Words


Cell = str | int | float | Text | TokensBlock | None


@dataclass(frozen=True, slots=True)
class TableBlock:
    columns: Sequence[Words]
    rows: Sequence[Sequence[Cell]]
    caption: Words | None = None
    strong: Collection[int] = ()  # rows to stress

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")


class Draw(Protocol):
    """Draws the figure in one language: `partial(confusion_matrix, counts, labels)`."""

    def __call__(self, *, lang: Lang) -> Any: ...


@dataclass(frozen=True, slots=True)
class FigureBlock:
    title: Words
    draw: Draw
    about: Words = ""  # what to see in it: printed below, and read aloud instead of the figure


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG picture of our own making, drawn once for each language."""

    svg: Text
    caption: Words | None = None


@dataclass(frozen=True, slots=True)
class CodeBlock:
    text: str
    language: Literal["", "toml"] = ""
    caption: Words | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture whose patches are the keys of attention maps, row by row from the key number `first` on."""

    pixels: NDArray[np.uint8]  # (H, W), or (H, W, 3)
    grid: tuple[int, int]  # rows and columns of patches
    first: int = 0  # 1 where a class token comes before them


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """The attention weights of one text, layer by layer: each (H, T, S), a row per query token, a column per key token."""

    rows: Sequence[str]
    weights: Mapping[str, NDArray[np.floating[Any]]]
    columns: Sequence[str] | None = None  # None: the text attends to itself
    title: Words = ""
    picture: Picture | None = None  # what the keys are patches of: weights are then shown over it too

    def __post_init__(self) -> None:
        T, S = len(self.rows), len(self.keys)
        for layer, weights in self.weights.items():
            if weights.ndim != 3 or weights.shape[1:] != (T, S):
                raise ValueError(f"maps of {layer} have shape {weights.shape}, not (heads, {T}, {S})")

    @property
    def keys(self) -> Sequence[str]:
        return self.rows if self.columns is None else self.columns


Block = Paragraph | TableBlock | FigureBlock | Drawing | CodeBlock | Legend | TokensBlock | AttentionMaps


@dataclass(frozen=True, slots=True)
class Section:
    title: Words
    body: Sequence[Block]
    folded: bool = False  # shown closed, opened by a click
