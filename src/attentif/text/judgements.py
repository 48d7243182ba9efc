"""Word vectors against people: similarity judgements and analogies.

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
    """One pair, as people see it and as the vectors do."""

    one: str
    other: str
    people: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Section:
    """The analogies of one section."""

    name: str
    right: NDArray[np.bool_]  # of those that could be asked
    questions: int  # of all


def is_analogies(path: Path) -> bool:
    """Whether a file is of analogies: it begins with a section."""
    return any(text.startswith(":") for _, text in _lines(path)[:1])


def read_similarity(path: Path) -> list[tuple[str, str, float]]:
    """Pairs and their scores; tabs, semicolons, commas or spaces between them, a header line or none."""
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
    """Questions by section."""
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


def judged(vectors: WordVectors, pairs: list[tuple[str, str, float]]) -> list[Similarity]:
    """The pairs whose words have vectors."""
    numbers = [(vectors.known(one), vectors.known(other)) for one, other, _ in pairs]
    return [
        Similarity(*pair, float(vectors.unit[a] @ vectors.unit[b]))
        for pair, (a, b) in zip(pairs, numbers, strict=True)
        if a is not None and b is not None
    ]


def spearman(pairs: list[Similarity]) -> float:
    """Rank correlation; not a number where it is not defined (fewer than two pairs, or all alike)."""
    people, cosines = (_ranks(np.array([getattr(pair, side) for pair in pairs])) for side in ("people", "cosine"))
    if len(pairs) < 2 or not np.ptp(people) or not np.ptp(cosines):
        return float("nan")
    return float(np.corrcoef(people, cosines)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, those of equal values the same: their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def answered(vectors: WordVectors, sections: dict[str, list[tuple[str, str, str, str]]]) -> list[Section]:
    """Every question that can be asked, section by section."""
    found = []
    for name, questions in sections.items():
        numbers = [[vectors.known(word) for word in question] for question in questions]
        asked = np.array([row for row in numbers if None not in row], dtype=np.int64).reshape(-1, 4)
        right = [_right(vectors, asked[start : start + AT_ONCE]) for start in range(0, len(asked), AT_ONCE)]
        found.append(Section(name, np.concatenate(right) if right else np.empty(0, dtype=bool), len(questions)))
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
    """Lines that are not empty, with their numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError("no such file", file=path) from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8 text", file=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {(error.strerror or str(error)).lower()}", file=path) from None
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
