"""Evaluating word vectors: similarity judgements and analogies.

    similarity   word ⇥ word ⇥ score: Spearman's rank correlation between the scores and the cosines (Rubenstein & Goodenough 1965);
                 the score is the first number behind the words, so that SimLex-999, MEN and WordSim-353 are read as they come
    analogies    ": section", then lines of four words, a is to b as c is to d: how often d is the word nearest to b̂ − â + ĉ
                 (the questions-words format of Mikolov et al. 2013)

Questions with a word that has no vector are left out, and how many are is said: a score over half of the questions is not one over all.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attentif.errors import DataError
from attentif.text.vectors import WordVectors

AT_ONCE = 256  # analogies answered by one product of matrices


@dataclass(frozen=True, slots=True)
class Similarity:
    """A pair of words with its human score and the cosine of its vectors."""

    one: str
    other: str
    people: float
    cosine: float


@dataclass(frozen=True, slots=True)
class AnalogySection:
    """The analogies of one section."""

    name: str
    right: NDArray[np.bool_]  # of those that could be asked
    questions: int  # of all


def is_analogies(path: Path) -> bool:
    """Whether a file contains analogies: it starts with a section."""
    return any(text.startswith(":") for _, text in _lines(path)[:1])


def read_similarity(path: Path) -> list[tuple[str, str, float]]:
    """Read pairs and scores, separated by tabs, semicolons, commas or spaces; a header is optional."""
    found: list[tuple[str, str, float]] = []
    for line, text in _lines(path):
        cut = ([part.strip() for part in text.split(sign)] for sign in ("\t", ";", ",", None))
        one, other, *rest = next((parts for parts in cut if len(parts) > 2), ("", ""))
        if not (one and other and rest[0]):
            raise DataError("not two words and a score", file=path, line=line)
        score = next((number for part in rest if (number := _number(part)) is not None), None)
        if score is not None:
            found.append((one, other, score))
        elif found or line > 1:
            raise DataError(f"the score {rest[0]!r} is not a number", file=path, line=line)
    if not found:
        raise DataError("has no pair of words", file=path)
    if not np.isfinite([score for *_, score in found]).all():
        raise DataError("a score is not a number", file=path)
    return found


def read_analogies(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read questions by section."""
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    name = ""
    for line, text in _lines(path):
        if text.startswith(":"):
            name = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise DataError(f"an analogy is four words, and here are {len(words)}", file=path, line=line)
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not sections:
        raise DataError("has no analogy", file=path)
    return sections


def compare_similarity(vectors: WordVectors, pairs: list[tuple[str, str, float]]) -> list[Similarity]:
    """Compute the cosine of the pairs whose words both have vectors."""
    numbers = [(vectors.find(one), vectors.find(other)) for one, other, _ in pairs]
    return [
        Similarity(*pair, float(vectors.unit[a] @ vectors.unit[b]))
        for pair, (a, b) in zip(pairs, numbers, strict=True)
        if a is not None and b is not None
    ]


def spearman(pairs: list[Similarity]) -> float:
    """Rank correlation; nan where it is undefined (fewer than two pairs, or constant values)."""
    people, cosines = (_ranks(np.array([getattr(pair, side) for pair in pairs])) for side in ("people", "cosine"))
    if len(pairs) < 2 or not np.ptp(people) or not np.ptp(cosines):
        return float("nan")
    return float(np.corrcoef(people, cosines)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks; ties get their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def answer_analogies(vectors: WordVectors, sections: dict[str, list[tuple[str, str, str, str]]]) -> list[AnalogySection]:
    """Answer every question whose words have vectors, by section."""
    found = []
    for name, questions in sections.items():
        numbers = [[vectors.find(word) for word in question] for question in questions]
        asked = np.array([row for row in numbers if None not in row], dtype=np.int64).reshape(-1, 4)
        right = [_right(vectors, asked[start : start + AT_ONCE]) for start in range(0, len(asked), AT_ONCE)]
        found.append(AnalogySection(name, np.concatenate(right) if right else np.empty(0, dtype=bool), len(questions)))
    return found


def _right(vectors: WordVectors, asked: NDArray[np.int64]) -> NDArray[np.bool_]:
    a, b, c, d = asked.T
    unit = vectors.unit
    cosines = (unit[b] - unit[a] + unit[c]) @ unit.T
    cosines[np.arange(len(asked))[:, None], asked[:, :3]] = -np.inf
    return cosines.argmax(1) == d


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the non-empty lines with their numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError("no such file", file=path) from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8 text", file=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {(error.strerror or str(error)).lower()}", file=path) from None
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
