"""Retrieval across kinds: how often the nearest is the right one, linear systems to compare with, and the task's part of the report."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from attentif.tasks.base import Baseline, Evaluation, Say
from attentif.tasks.details import details_of
from attentif.tasks.metrics import mean_interval
from attentif.tasks.ragged import Ints
from attentif.view.blocks import Block, Contender, FigureBlock, Score, Section, TableBlock
from attentif.view.words import Text, Words, metric, percent

if TYPE_CHECKING:
    from attentif.tasks.matching.contrastive import EncodedThings

Vectors = NDArray[np.floating]
STEPS = 32  # frames that every sound is stretched to for the linear system
RIDGE = 10.0
MOST_FITTED = 10_000  # training rows that it is fitted on
NAMES = {"text": Text("texte", "text"), "image": Text("image", "picture"), "audio": Text("son", "sound")}


class Direction(TypedDict):
    asks: str
    finds: str
    first: float  # share of questions whose nearest answer is right
    interval: list[float]
    fifth: float  # share with a right answer among the nearest five


Directions = list[Direction]


class RetrievalDetails(TypedDict):
    directions: Directions


def recall_at(count: int, asks: Vectors, finds: Vectors, same: Ints, rows: int = 1024) -> NDArray[np.float64]:
    """1 for each row of `asks` with a row of the same thing among the `count` nearest of `finds`, else 0."""
    found = np.zeros(len(asks))
    for start in range(0, len(asks), rows):
        near = asks[start : start + rows] @ finds.T
        right = same[start : start + rows, None] == same
        best = np.where(right, near, -np.inf).max(1)
        found[start : start + rows] = ((near > best[:, None]) & ~right).sum(1) < count
    return found


# ------------------------------------------------------------------------------------------------------------- baselines


def linear_baselines(train: "EncodedThings", test: "EncodedThings", say: Say) -> list[Baseline]:
    """Drawing lots, and linear maps from pixels and frames to the words of the text (ridge)."""
    pairs = len([*permutations(test.kinds, 2)])
    share = np.array([np.mean(test.same == own) for own in test.same])
    lots = Baseline(Text("au hasard", "drawing lots"), {"recall_at_1": float(share.mean())})
    started = time.perf_counter()
    vectors = _linear_vectors(train, test)
    first = np.stack([recall_at(1, vectors[a], vectors[b], test.same) for a, b in permutations(test.kinds, 2)], 1)
    value = float(first.mean())
    interval = mean_interval(first.sum(1), np.full(len(test), pairs))
    seconds = time.perf_counter() - started
    name = Text("applications linéaires vers les mots (ridge)", "linear maps to the words (ridge)")
    say(f"baseline {name.en}: {100 * value:.1f} % found first ({seconds:.1f} s)")
    return [lots, Baseline(name, {"recall_at_1": value}, {"recall_at_1": interval}, seconds)]


def _linear_vectors(train: "EncodedThings", test: "EncodedThings") -> dict[str, Vectors]:
    """Of each kind, what the linear map says about the words of the text, of length 1; of texts, the words themselves."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import Ridge

    rows = np.unique(np.linspace(0, len(train) - 1, MOST_FITTED).astype(np.int64))
    words = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"\w+", max_features=5_000)
    texts = train.things.table["text"]
    wanted = words.fit_transform([texts[row] for row in rows]).toarray().astype(np.float32)
    centre = wanted.mean(0)
    found = {"text": words.transform(test.things.table["text"]).toarray() - centre}
    for kind in test.kinds[1:]:
        fitted = Ridge(RIDGE).fit(_flat(train, kind)[rows], wanted)
        found[kind] = fitted.predict(_flat(test, kind)) - centre
    return {kind: own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9) for kind, own in found.items()}


def _flat(part: "EncodedThings", kind: str) -> Vectors:
    """Pixels, or frames stretched to one length, as rows."""
    if kind == "image":
        pixels = part.things.pixels[part.things.picture]
        return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
    assert part.frames is not None
    stretched = [F.interpolate(own.T[None], size=STEPS, mode="linear", align_corners=False)[0] for own in part.frames]
    return torch.stack(stretched).flatten(1).numpy()


# ---------------------------------------------------------------------------------------------------------------- report


def retrieval_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, RetrievalDetails)) is None:
        return []
    return [Section(Text("D’un genre à l’autre", "From one kind to another"), _directions(details["directions"]))]


def _directions(directions: Sequence[Direction]) -> list[Block]:
    from attentif.view.figures import contenders
    from attentif.view.figures.scores import format_score

    of = metric("recall_at_1")
    name = lambda one: Text(f"{NAMES[one['asks']].fr} → {NAMES[one['finds']].fr}", f"{NAMES[one['asks']].en} → {NAMES[one['finds']].en}")
    score = lambda one: Score(one["first"], *one["interval"])
    bars = [Contender(name(one), {of.key: score(one)}, ours=True) for one in directions]
    about = Text(
        "Pour chaque élément d’un genre, le plus proche de l’autre genre parmi tous ceux du test est-il le bon ?",
        "For each item of one kind: is the nearest of the other kind, among all of the test, the right one?",
    )
    heads: list[Words] = [Text("de → vers", "from → to"), of.name, metric("recall_at_5").name]
    rows = [[name(one), format_score(score(one), of), percent(one["fifth"])] for one in directions]
    title = Text("Trouvés du premier coup", "Found first")
    return [FigureBlock(title, partial(contenders, of.key, bars), about), TableBlock(heads, rows)]
