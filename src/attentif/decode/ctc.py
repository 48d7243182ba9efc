"""From the frames of a CTC model to a transcript, and back to the frames that it was heard in.

greedy     the likeliest token of each frame; repeats as one, blanks left out
beam       the likeliest transcripts: P(y) = Σ over the alignments that collapse to y, kept for the best prefixes by whether they
           end in a blank or in their last token                                            (Graves 2012, section 7.5.3; Hannun 2017)
align      the likeliest alignment of a given transcript, by dynamic programming            (Viterbi 1967)

log_p    (T, V) log-probabilities of the tokens at each frame, the blank (0) among them
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attentif.errors import DataError
from attentif.models.heads.ctc import BLANK, min_frames

NEVER = -math.inf
LogP = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Transcript:
    """Tokens, and the logarithm of their probability: of all their alignments, as far as the search kept them."""

    tokens: tuple[int, ...]
    log_p: float


@dataclass(frozen=True, slots=True)
class Heard:
    """A token and the frames it was heard in, from `start` up to `end` (excluded)."""

    token: int
    start: int
    end: int


def collapse(alignment: Sequence[int]) -> tuple[int, ...]:
    """Repeats as one, then blanks left out: 0 7 7 0 7 3 is 7 7 3."""
    return tuple(token for place, token in enumerate(alignment) if token != BLANK and (place == 0 or token != alignment[place - 1]))


def greedy(log_p: LogP) -> Transcript:
    """The transcript of the likeliest alignment, which need not be the likeliest transcript; its `log_p` is that alignment's."""
    return Transcript(collapse(log_p.argmax(1).tolist()), float(log_p.max(1).sum()))


def prefix_beam(log_p: LogP, beams: int = 8, least: float = 1e-4) -> list[Transcript]:
    """The likeliest transcripts, best first. Tokens below the probability `least` at a frame do not go on with a prefix there."""
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, NEVER)}  # prefix -> alignments that end in a blank, in its last token
    floor = math.log(least) if least > 0 else NEVER
    for frame in log_p.tolist():
        likely = [(token, p) for token, p in enumerate(frame) if token != BLANK and p > floor]
        found: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (blank, last) in kept.items():
            both = _add(blank, last)
            _meet(found, prefix, both + frame[BLANK], NEVER)
            if prefix:
                _meet(found, prefix, NEVER, last + frame[prefix[-1]])
            for token, p in likely:
                # the same token again is another one only after a blank
                _meet(found, (*prefix, token), NEVER, p + (blank if prefix and token == prefix[-1] else both))
        best = sorted(found.items(), key=lambda entry: (-_add(*entry[1]), entry[0]))[:beams]
        kept = dict(best)
    return [Transcript(prefix, _add(*ends)) for prefix, ends in sorted(kept.items(), key=lambda entry: (-_add(*entry[1]), entry[0]))]


def align(log_p: LogP, tokens: Sequence[int]) -> list[Heard]:
    """When each token of a transcript was heard, along its likeliest alignment."""
    states = [BLANK, *(state for token in tokens for state in (token, BLANK))]
    needed = min_frames(tokens)
    if needed > len(log_p):
        raise DataError(f"{len(tokens)} tokens need {needed} frames, and the sound has {len(log_p)}")
    score = np.full(len(states), NEVER)
    score[:2] = log_p[0, states[:2]]
    skips = np.array([place >= 2 and state != BLANK and state != states[place - 2] for place, state in enumerate(states)])
    came = np.zeros((len(log_p), len(states)), dtype=np.int8)  # how many states back
    for t in range(1, len(log_p)):
        choices = np.stack([score, _shift(score, 1), np.where(skips, _shift(score, 2), NEVER)])
        came[t] = choices.argmax(0)
        score = choices.max(0) + log_p[t, states]
    place = len(states) - 1 if len(states) == 1 or score[-1] >= score[-2] else len(states) - 2
    path = [place]
    for t in range(len(log_p) - 1, 0, -1):
        place -= int(came[t, place])
        path.append(place)
    path.reverse()
    return [Heard(token, path.index(2 * n + 1), len(path) - path[::-1].index(2 * n + 1)) for n, token in enumerate(tokens)]


def _shift(score: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    return np.concatenate([np.full(min(by, len(score)), NEVER), score[: max(len(score) - by, 0)]])


def _add(a: float, b: float) -> float:
    """ln(eᵃ + eᵇ)"""
    if a < b:
        a, b = b, a
    return a if b == NEVER else a + math.log1p(math.exp(b - a))


def _meet(found: dict[tuple[int, ...], tuple[float, float]], prefix: tuple[int, ...], blank: float, last: float) -> None:
    """Alignments of one prefix from another side."""
    before = found.get(prefix, (NEVER, NEVER))
    found[prefix] = (_add(before[0], blank), _add(before[1], last))
