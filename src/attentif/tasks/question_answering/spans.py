"""Passages cut into windows, and answers as spans of their tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.data.squad import ContextAnswer
from attentif.text import Tokenizer

Offsets = Sequence[tuple[int, int]]


class Place(NamedTuple):
    """A span of a window's places and its score; `nothing` is that of [CLS], `total` the logarithm of what all places sum to."""

    first: int
    last: int
    score: float
    nothing: float
    total: float


@dataclass(frozen=True, slots=True)
class Span:
    """An answer as characters of its passage; `nothing` is how well "not here" scores, by the window that is least sure of it."""

    start: int
    end: int
    score: float
    nothing: float
    total: float

    @property
    def probability(self) -> float:
        """Of this answer among all that its window could give."""
        return math.exp(self.score - self.total)

    @property
    def silence(self) -> float:
        """The probability that there is none."""
        return math.exp(self.nothing - self.total)

    def better_of(self, other: "Span | None") -> "Span":
        """The better of two windows' answers."""
        if other is None:
            return self
        best = self if self.score > other.score else other
        return Span(best.start, best.end, best.score, min(self.nothing, other.nothing), best.total)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a passage with its question: [CLS] question [SEP] part [SEP]."""

    example: int  # the row of the table
    asked: int  # places of [CLS] and the question
    begin: int  # the place of the part's first token
    offsets: NDArray[np.int32]  # (tokens of the part, 2): characters of the passage
    first: int  # the answer's places; 0, that of [CLS], where the part does not hold it whole
    last: int

    def to_span(self, place: Place) -> Span:
        """The span in the passage's own characters."""
        start, end = (int(self.offsets[at - self.begin, side]) for at, side in ((place.first, 0), (place.last, 1)))
        return Span(start, end, place.score, place.nothing, place.total)


@dataclass
class Cut:
    """All windows of a split."""

    ids: list[NDArray[np.int32]] = field(default_factory=list)
    shared: list[NDArray[np.int32]] = field(default_factory=list)  # 1: a token that stands in the question and in the part
    windows: list[Window] = field(default_factory=list)
    long_questions: int = 0
    several: int = 0  # passages that took more than one window
    lost: int = 0  # answers that no window holds whole


def cut_windows(
    tokenizer: Tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Sequence[ContextAnswer]],
    *,
    longest: int,
    stride: int,
    max_question: int,
) -> Cut:
    """Each question with each window of its passage. Every window but the last is full; two neighbours share `stride` tokens."""
    found = Cut()
    known: dict[str, tuple[list[int], Offsets]] = {}  # many questions share a passage
    asked = tokenizer.ids_batch(questions, wrap="none")
    first_of, between, last_of = tokenizer.frame_for("cls").pair
    for row, (question, context, own) in enumerate(zip(asked, contexts, answers, strict=True)):
        if context not in known:
            encoding = tokenizer.encode(context, wrap="none")
            nothing_left = ([tokenizer.mask if tokenizer.unk is None else tokenizer.unk], [(0, len(context))])
            known[context] = (encoding.ids, trim_offsets(encoding.offsets, context)) if encoding.ids else nothing_left
        ids, offsets = known[context]
        found.long_questions += len(question) > max_question
        asking = [*first_of, *question[:max_question].tolist()]
        before = [*asking, *between]
        room = longest - len(before) - len(last_of)
        span = token_span(offsets, own[0].start, own[0].end) if own else None
        starts = [0, *range(room - stride, max(len(ids) - stride, 0), room - stride)]
        held = False
        for start in starts:
            part = slice(start, start + room)
            first = last = 0
            if span is not None and start <= span[0] and span[1] < start + room:
                first, last, held = len(before) + span[0] - start, len(before) + span[1] - start, True
            found.ids.append(np.array([*before, *ids[part], *last_of], dtype=np.int32))
            found.shared.append(np.isin(found.ids[-1], np.intersect1d(question[:max_question], ids[part])).astype(np.int32))
            found.windows.append(Window(row, len(asking), len(before), np.array(offsets[part], dtype=np.int32), first, last))
        found.several += len(starts) > 1
        found.lost += span is not None and not held
    return found


def trim_offsets(offsets: Offsets, text: str) -> Offsets:
    """The same without the spaces that tokens may begin or end with: " Paris" stands for Paris."""
    found = []
    for start, end in offsets:
        piece = text[start:end]
        left = len(piece) - len(piece.lstrip())
        found.append((start + left, start + left + len(piece.strip())) if piece.strip() else (start, end))
    return found


def token_span(offsets: Offsets, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that stand for some of the characters from start to end; None where none does."""
    touching = [place for place, (a, b) in enumerate(offsets) if a < end and b > start]
    return (touching[0], touching[-1]) if touching else None


def best_spans(scores: Tensor, longest: int) -> list[Place]:
    """Of each window's scores (B, 2, T), the best span of at most `longest` places that does not begin before it ends; [CLS] apart."""
    first, last = scores.unbind(1)
    both = first[:, :, None] + last[:, None, :]
    steps = torch.arange(scores.shape[-1], device=scores.device)
    gap = steps - steps[:, None]
    usable = (gap >= 0) & (gap < longest) & (steps[:, None] > 0)
    value, place = both.masked_fill(~usable, float("-inf")).flatten(1).max(1)
    total = first.logsumexp(1) + last.logsumexp(1)
    width = scores.shape[-1]
    rows = zip(place.tolist(), value.tolist(), both[:, 0, 0].tolist(), total.tolist(), strict=True)
    return [Place(at // width, at % width, score, nothing, whole) for at, score, nothing, whole in rows]
