"""Signals and texts in the same form, for an experiment that compares models on both: what is read, and the next step asked for.

Of signals the values are read, and the interval of the next one is asked for, of LEVELS that are equally frequent in training; of texts,
characters. Both come from the built-in sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin import heartbeats, reviews, tones
from attentif.lab.rows import LETTERS, real_text
from attentif.lab.small import Generate, Rows

SIGNALS = ("tones", "heartbeats")
LEVELS = 64
QUIETEST = tones.NOISE_DB[1]  # decibels: nobody can predict noise
POOL = {"tones": 60, "heartbeats": 400, "reviews": 2000}  # recordings that windows are cut from; a quarter as many are asked about


@dataclass(frozen=True)
class SignalSource:
    """Rows to learn from and rows to be asked about; of signals, values come in and numbers of intervals are asked for."""

    train: Generate
    test: Generate
    symbols: int
    values: bool


def windows(recordings: Sequence[NDArray[Any]], length: int, count: int, seed: int) -> NDArray[Any]:
    """(count, length + 1): pieces of recordings drawn at random."""
    draws = np.random.default_rng(seed)
    chosen = [recordings[place] for place in draws.integers(0, len(recordings), count)]
    starts = [int(draws.integers(0, len(own) - length)) for own in chosen]
    return np.stack([own[start : start + length + 1] for own, start in zip(chosen, starts, strict=True)])


def load_recordings(name: str, count: int, seed: int) -> list[NDArray[Any]]:
    """Signals as they come from the built-in sets."""
    draws = np.random.default_rng([seed, count])
    if name == "heartbeats":
        return [heartbeats.signal(heartbeats.LABELS[row % len(heartbeats.LABELS)], draws) for row in range(count)]
    numbers = ("".join(draws.choice(list(tones.KEYS), tones.LONGEST)) for _ in range(count))
    return [tones.dial(digits, draws, QUIETEST) for digits in numbers]


def signal(name: str, length: int) -> SignalSource:
    """The next value, as the number of its interval; values are read on the scale of training."""
    train, test = load_recordings(name, POOL[name], 0), load_recordings(name, POOL[name] // 4, 1)
    everything = np.concatenate(train)
    edges = np.quantile(everything, np.arange(1, LEVELS) / LEVELS)
    mean, deviation = everything.mean(), everything.std()

    def rows(recordings: Sequence[NDArray[Any]], count: int, seed: int) -> Rows:
        values = windows(recordings, length, count, seed)
        return ((values[:, :-1, None] - mean) / deviation).astype(np.float32), np.searchsorted(edges, values[:, 1:])

    return SignalSource(partial(rows, train), partial(rows, test), LEVELS, values=True)


def french(length: int) -> SignalSource:
    """The next character of film reviews, one after the other."""
    found = reviews.load(0, train=POOL["reviews"], valid=2, test=POOL["reviews"] // 4)
    train, test = (np.frombuffer("\n".join(found[split]["text"]).encode("utf-32-le"), np.uint32) for split in ("train", "test"))
    letters = np.unique(train)

    def rows(read: NDArray[np.uint32], count: int, seed: int) -> Rows:
        found = np.searchsorted(letters[:-1], windows([read], length, count, seed)).astype(np.int64)
        return found[:, :-1], found[:, 1:]

    return SignalSource(partial(rows, train), partial(rows, test), len(letters), values=False)


def source(name: str, length: int) -> SignalSource:
    """By name: tones and heartbeats are signals, reviews and sources texts."""
    if name in SIGNALS:
        return signal(name, length)
    return french(length) if name == "reviews" else SignalSource(real_text(length), real_text(length, "test"), LETTERS, values=False)
