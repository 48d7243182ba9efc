"""Word vectors as a map: the two directions along which the shown words differ most."""

import numpy as np
from pydantic import BaseModel

from attentif.api import Run
from attentif.serve.studio.messages import MapRequest, NearestWordsRequest


class Near(BaseModel):
    word: str
    cosine: float


class WordMap(BaseModel):
    words: list[str]
    points: list[tuple[float, float]]
    explained: float  # share of the variance that the plane shows


def near(run: Run, asked: NearestWordsRequest) -> list[Near]:
    """The words nearest to a word, by cosine."""
    return [Near(word=found.word, cosine=float(found.cosine)) for found in run.vectors.neighbours(asked.word, asked.count)]


def project(run: Run, asked: MapRequest) -> WordMap:
    """Some words and the most frequent ones, in the plane of the former's first two principal components (PCA, signs fixed)."""
    vectors = run.vectors
    frequent = [word for _, word in zip(range(asked.count), (word for word in vectors.words if word.isalpha()), strict=False)]
    chosen = [word for word in asked.words if word in vectors]
    fitted = chosen if len(chosen) > 2 else frequent
    rows = np.array([vectors.unit[vectors.number(word)] for word in fitted], dtype=np.float64)
    middle = rows.mean(0)
    _, spread, axes = np.linalg.svd(rows - middle, full_matrices=False)
    plane = axes[:2] * np.sign(axes[:2, np.abs(axes[:2]).argmax(1)].diagonal())[:, None]
    share = float((spread[:2] ** 2).sum() / max((spread**2).sum(), 1e-12))
    words = list(dict.fromkeys([*chosen, *frequent]))
    points = (np.array([vectors.unit[vectors.number(word)] for word in words], dtype=np.float64) - middle) @ plane.T
    return WordMap(words=words, points=[(float(x), float(y)) for x, y in points], explained=share)
