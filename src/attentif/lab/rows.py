"""Rows that several experiments train on: token numbers, and what is asked at each place."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin.stdlib import documents
from attentif.lab.small import Generate, Rows
from attentif.tasks.ragged import UNSCORED


def token_before(vocab: int, length: int) -> Generate:
    """At each place but the first, the token before it: attention has to look one place back, and nothing else."""

    def rows(count: int, seed: int) -> Rows:
        tokens = np.random.default_rng(seed).integers(0, vocab, (count, length))
        targets = np.full_like(tokens, UNSCORED)
        targets[:, 1:] = tokens[:, :-1]
        return tokens, targets

    return rows


def facts(names: int, answers: int, seed: int) -> Generate:
    """Two tokens of `names`, and the answer that a table drawn at random has for them: nothing but memory tells it."""
    table = np.random.default_rng(seed).integers(0, answers, (names, names))

    def rows(count: int, seed: int) -> Rows:
        tokens = np.random.default_rng(seed).integers(0, names, (count, 2))
        targets = np.full_like(tokens, UNSCORED)
        targets[:, 1] = table[tokens[:, 0], tokens[:, 1]]
        return tokens, targets

    return rows


LETTERS = 128  # of ASCII; 0 stands for all others
MOST_TEXT = 2_000_000  # characters that are read


@cache
def _letters(split: str) -> NDArray[np.int64]:
    """The beginning of the standard library's text, a number a character."""
    pieces: list[str] = []
    size = 0
    for document in documents(split):
        pieces.append(document.text)
        size += len(document.text)
        if size >= MOST_TEXT:
            break
    read = np.frombuffer("".join(pieces)[:MOST_TEXT].encode("utf-32-le"), np.uint32).astype(np.int64)
    return np.where(read < LETTERS, read, 0)


def real_text(length: int, split: str = "train") -> Generate:
    """Windows of Python's standard library, the next character asked for at each place: real text that every machine has."""

    def rows(count: int, seed: int) -> Rows:
        letters = _letters(split)
        starts = np.random.default_rng(seed).integers(0, len(letters) - length, (count, 1))
        windows = letters[starts + np.arange(length + 1)]
        return windows[:, :-1], windows[:, 1:].copy()

    return rows
