"""Drawings judged: a classifier of real pictures, the distance to the nearest training picture, simple painters, the report.

A drawing is recognised where a support vector machine (Cortes & Vapnik 1995; RBF kernel, scikit-learn) fitted on the real training pictures
gives it the class that was asked for. That machine errs on real pictures too: its own accuracy on the test stands beside.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from attentif.data.images import Pictures
from attentif.data.picture_files import Bytes
from attentif.extras import require_extra
from attentif.files import replace_atomically
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.details import details_of
from attentif.tasks.metrics import share
from attentif.tasks.vision.codebook import Codebook, Ints
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Score, Section, TableBlock
from attentif.view.words import Text, Words, count, metric, percent, with_decimals

MOST_FITTED = 8_000  # pictures that the judge learns from: its time grows with their square
MOST_JUDGED = 2_000
AT_ONCE = 256  # drawings compared with all training pictures at a time
GAP = 2  # pixels between the pictures of a sheet


@dataclass(frozen=True)
class RealPictures:
    """Training pictures, and a judge fitted on them when drawings are first judged."""

    pictures: Pictures

    @cached_property
    def judge(self) -> "Judge":
        return Judge.fit(self.pictures)


@dataclass(frozen=True)
class Judge:
    """Tells what a picture shows."""

    machine: Any

    @classmethod
    def fit(cls, pictures: Pictures) -> "Judge":
        from sklearn.svm import SVC

        rows = np.unique(np.linspace(0, len(pictures) - 1, MOST_FITTED).astype(np.int64))
        return cls(SVC(C=10.0, gamma="scale").fit(_flat(pictures.pixels[rows]), np.array(pictures.table["label"])[rows]))

    def labels(self, pixels: Bytes) -> list[str]:
        return [str(label) for label in self.machine.predict(_flat(pixels))]


def _flat(pixels: Bytes) -> NDArray[np.float32]:
    return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)


def distances(drawn: Bytes, known: Bytes) -> tuple[NDArray[np.float64], Ints]:
    """Of each drawing, how far the nearest training picture is (root mean square of a pixel, white being 1), and which it is."""
    ours, theirs = _flat(drawn), _flat(known)
    squares = (theirs**2).sum(1)
    near, which = [], []
    for start in range(0, len(ours), AT_ONCE):
        some = ours[start : start + AT_ONCE]
        table = (some**2).sum(1)[:, None] + squares - 2 * some @ theirs.T
        closest = table.argmin(1)
        which.append(closest)
        near.append(((some - theirs[closest]) ** 2).mean(1))  # the table's own numbers are rounded: a copy would not be at 0
    return np.sqrt(np.concatenate(near).astype(np.float64)), np.concatenate(which)


def sheet(shown: Sequence[Bytes], columns: int = 0, side: int = 64) -> Bytes:
    """Pictures (H, W) or (H, W, 3) side by side, `columns` in a row (0: all), each of about `side` pixels."""
    height, width = shown[0].shape[:2]
    scale = max(1, round(side / max(height, width)))
    columns = columns or len(shown)
    rows = -(-len(shown) // columns)
    down, across = height * scale + GAP, width * scale + GAP
    whole = np.full((rows * down + GAP, columns * across + GAP, *shown[0].shape[2:]), 128, np.uint8)
    for place, one in enumerate(shown):
        top, left = place // columns * down + GAP, place % columns * across + GAP
        whole[top : top + height * scale, left : left + width * scale] = one.repeat(scale, 0).repeat(scale, 1)
    return whole


def write_sheet(path: Path, shown: Sequence[Bytes]) -> None:
    """A grid about as wide as it is high, as a PNG file, whole or not at all."""
    require_extra("PIL")
    from PIL import Image

    with replace_atomically(path) as temporary:
        Image.fromarray(sheet(shown, columns=math.ceil(math.sqrt(len(shown))), side=96)).save(temporary, "PNG", optimize=True)


# ------------------------------------------------------------------------------------------------------------- baselines


def paint_baselines(
    train: tuple[Pictures, Ints], test: tuple[Pictures, Ints], codebook: Codebook, judge: Judge, each: int, say: Say
) -> list[Baseline]:
    """Real test pictures, the same as the codebook has them, and a painter that draws every token by itself; (pictures, codes) a split."""
    (known, codes), (asked, own) = train, test
    started = time.perf_counter()
    rows = np.unique(np.linspace(0, len(asked) - 1, MOST_JUDGED).astype(np.int64))
    labels = [asked.table["label"][row] for row in rows.tolist()]
    real = _score_recognition(judge, asked.pixels[rows], labels)
    coded = _score_recognition(judge, codebook.decode(own[rows]), labels)
    found = [
        Baseline(Text("vrais chiffres du test (ce que vaut le juge)", "real test pictures (what the judge is worth)"), *real),
        Baseline(Text("les mêmes, par les pavés du dictionnaire", "the same, in patches of the codebook"), *coded),
    ]
    classes = sorted(set(known.table["label"]))
    tables = {label: frequencies(codes[np.array(known.table["label"]) == label], len(codebook)) for label in classes}
    random = np.random.default_rng(0)
    drawn = np.concatenate([_each_by_itself(tables[label], each, random) for label in classes])
    scores, intervals = _score_recognition(judge, codebook.decode(drawn), [label for label in classes for _ in range(each)])
    bits = [-np.log2(tables[label][np.arange(own.shape[1]), row]).mean() for label, row in zip(asked.table["label"], own, strict=True)]
    alone = Text("chaque pavé pour lui-même, par sa place", "every patch by itself, by its place")
    found.append(Baseline(alone, scores | {"bits_per_token": float(np.mean(bits))}, intervals, time.perf_counter() - started))
    for one in found:
        say(f"baseline {one.name.en if isinstance(one.name, Text) else one.name}: {100 * one.scores['recognised']:.1f} % recognised")
    return found


def frequencies(codes: Ints, count: int) -> NDArray[np.float64]:
    """(places, codes): how often each code stands at each place, one added to all (Laplace) divided by their number."""
    table = np.full((codes.shape[1], count), 1.0 / count)
    np.add.at(table, (np.broadcast_to(np.arange(codes.shape[1]), codes.shape), codes), 1.0)
    return table / table.sum(1, keepdims=True)


def _each_by_itself(table: NDArray[np.float64], each: int, random: np.random.Generator) -> Ints:
    return np.stack([random.choice(table.shape[1], size=each, p=row / row.sum()) for row in table], 1)


def _score_recognition(judge: Judge, pixels: Bytes, labels: list[str]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    value, around = share(sum(a == b for a, b in zip(judge.labels(pixels), labels, strict=True)), len(labels))
    return {"recognised": value}, {"recognised": around}


# ---------------------------------------------------------------------------------------------------------------- report


class ClassDrawings(TypedDict):
    label: str
    prompt: str
    recognised: float
    interval: list[float]
    examples: int
    drawn: str  # a data URI
    nearest: str


class Ink(TypedDict):
    """Mean of the pixels by prompt."""

    thin: float
    plain: float
    bold: float


class Copying(TypedDict):
    """How near drawings are to training pictures."""

    drawn: float  # median distance of a drawing
    real: float  # of a real test picture
    copies: float  # share of drawings that are a training picture
    closer: float  # share nearer than 99 % of the real ones


class PaintDetails(TypedDict):
    by_class: list[ClassDrawings]
    copying: Copying
    ink: Ink
    temperature: float


def paint_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, PaintDetails)) is None:
        return []
    return [
        Section(Text("Les dessins", "The drawings"), _drawings(details)),
        Section(Text("Dessine-t-il, ou recopie-t-il ?", "Does it draw, or does it copy?"), _copying_blocks(details)),
    ]


def _drawings(details: PaintDetails) -> list[Block]:
    from attentif.view.figures.drawings import drawings
    from attentif.view.figures.scores import format_score

    classes, of = details["by_class"], metric("recognised")
    about = Text(
        "Une ligne par demande, tirée à la température {t} ; rien n'est choisi.",
        "A row for each thing asked for, drawn at temperature {t}; nothing is chosen.",
    ).with_(t=with_decimals(details["temperature"]))
    rows: list[list[Cell]] = [
        [entry["prompt"], format_score(Score(entry["recognised"], *entry["interval"]), of), count(entry["examples"])] for entry in classes
    ]
    heads: list[Words] = [Text("demande", "asked for"), of.name, Text("dessins", "drawings")]
    ink = details["ink"]
    asked = [Text("fin", "thin"), Text("sans précision", "plain"), Text("gras", "bold")]
    amounts: list[list[Cell]] = [
        [name, percent(value)] for name, value in zip(asked, (ink["thin"], ink["plain"], ink["bold"]), strict=True)
    ]
    shown = [(entry["prompt"], entry["drawn"]) for entry in classes]
    return [
        FigureBlock(Text("Ce que le modèle dessine", "What the model draws"), partial(drawings, shown), about),
        TableBlock(heads, rows),
        TableBlock([Text("demande", "asked for"), Text("encre (moyenne des pixels)", "ink (mean of the pixels)")], amounts),
    ]


def _copying_blocks(details: PaintDetails) -> list[Block]:
    from attentif.view.figures.drawings import drawings

    copying = details["copying"]
    about = Text(
        "Sous chaque dessin, l'image d'apprentissage la plus proche. La distance médiane d'un dessin à la plus proche est {drawn} ; "
        "celle d'une vraie image de test, que le modèle n'a jamais vue, {real} (racine du carré moyen d'un pixel, le blanc valant 1). "
        "{copies} des dessins sont une image d'apprentissage au pixel près ; {closer} en sont plus proches que 99 % des vraies images "
        "de test.",
        "Below each drawing, the nearest training picture. The median distance from a drawing to its nearest is {drawn}; that of a real "
        "test picture, which the model has never seen, {real} (root mean square of a pixel, white being 1). {copies} of the drawings are a "
        "training picture to the pixel; {closer} are nearer to one than 99% of the real test pictures.",
    ).with_(
        drawn=with_decimals(copying["drawn"], 3),
        real=with_decimals(copying["real"], 3),
        copies=percent(copying["copies"]),
        closer=percent(copying["closer"]),
    )
    both = [pair for entry in details["by_class"] for pair in ((entry["prompt"], entry["drawn"]), ("", entry["nearest"]))]
    return [Paragraph(about), FigureBlock(Text("Dessin, et image la plus proche", "Drawing, and nearest picture"), partial(drawings, both))]
