"""One word in several sentences, as a page: how near its uses are to each other, layer by layer, and the senses they fall into."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.figures.axes import Axis
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.figures.senses import cosine_matrix, map_of_uses
from attentif.view.page import Page, write
from attentif.view.words import Text, Words, count, with_decimals

Cosines = NDArray[np.float64]
AROUND = 14  # characters of its sentence on each side of a word, on an axis
FEW_PAIRS = 10  # beyond, curves are means over pairs
LAYER = Axis(Text("couche (0 : la table des mots)", "layer (0: the table of words)"))
COSINE = Axis(Text("cosinus", "cosine"), higher_is_better=True)


@dataclass(frozen=True)
class SensesView:
    """What there is to show of a word."""

    word: str
    spans: Sequence[tuple[str, int, int]]  # sentence, where the word begins and ends in it
    by_layer: Sequence[Cosines]  # (uses, uses): of the table of words, then after each block
    vectors: NDArray[np.floating[Any]]  # (uses, D), the last layer's
    groups: Sequence[int]
    silhouette: float | None

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.spans)), 2))

    @property
    def several(self) -> bool:
        return len(set(self.groups)) > 1


def senses_page(path: Path, shown: SensesView) -> None:
    title = Text(f"« {shown.word} » en contexte", f"“{shown.word}” in context")
    write(path, Page(title, senses_sections(shown), [Paragraph(_lead(shown), "lead")]))


def senses_sections(shown: SensesView) -> list[Section]:
    sections = [
        Section(Text("Emplois", "Uses"), [_uses(shown)]),
        Section(Text("Qui est proche de qui", "Who is near to whom"), [_matrix(shown)]),
    ]
    if len(shown.by_layer) > 2:
        sections.append(Section(Text("Couche par couche", "Layer by layer"), [_layers(shown)]))
    if len(shown.spans) > 2:
        sections.append(Section(Text("Carte des emplois", "Map of the uses"), [_map(shown)]))
    return sections


def _lead(shown: SensesView) -> Text:
    last, first = ([table[pair] for pair in shown.pairs] for table in (shown.by_layer[-1], shown.by_layer[0]))
    said = Text(
        "{uses} emplois : leurs cosinus {in_context} en contexte, {static} dans la table des mots, qui n'en connaît pas.",
        "{uses} uses: their cosines are {in_context} in context, {static} in the table of words, which knows none.",
    ).with_(uses=count(len(shown.spans)), in_context=_span(last), static=_span(first, again=True))
    if shown.several:
        found = Text(" Ils forment {number} sens (silhouette {score}).", " They fall into {number} senses (silhouette {score}).")
        score = Text("sans objet", "not defined") if shown.silhouette is None else with_decimals(shown.silhouette, 2)
        more = found.with_(number=count(len(set(shown.groups))), score=score)
        said = Text(said.fr + more.fr, said.en + more.en)
    return said


def _span(values: Sequence[float], *, again: bool = False) -> Text:
    """The range of some cosines; `again` leaves out the French verb, which has been said."""
    low, high = with_decimals(min(values), 2), with_decimals(max(values), 2)
    if low == high:
        return Text(f"{'' if again else 'valent '}{low.fr}", low.en)
    return Text(f"{'' if again else 'vont '}de {low.fr} à {high.fr}", f"{low.en} to {high.en}")


def _uses(shown: SensesView) -> Block:
    rows: list[list[Cell]] = []
    for number, ((sentence, start, end), group) in enumerate(zip(shown.spans, shown.groups, strict=True), 1):
        parts = [part for part in ((sentence[:start], 0.0), (sentence[start:end], 1.0), (sentence[end:], 0.0)) if part[0]]
        cell = TokensBlock([text for text, _ in parts], [value for _, value in parts])
        rows.append([number, cell, *([group + 1] if shown.several else [])])
    columns: list[Words] = ["", Text("phrase", "sentence"), *([Text("sens", "sense")] if shown.several else [])]
    return TableBlock(columns, rows)


def _matrix(shown: SensesView) -> Block:
    draw = partial(cosine_matrix, shown.by_layer[-1], labels(shown))
    about = Text(
        "Le cosinus de chaque emploi avec chaque autre, dans la dernière couche : foncé, ils veulent dire la même chose. Comparez les "
        "cosinus entre eux, non à zéro : certains modèles donnent des cosinus élevés à tous les mots.",
        "The cosine of every use with every other, in the last layer: dark, they mean the same. Compare cosines with each other, not with "
        "zero: some models give high cosines to all words.",
    )
    return FigureBlock(Text("Cosinus des emplois", "Cosines of the uses"), draw, about)


def _layers(shown: SensesView) -> Block:
    places = list(range(len(shown.by_layer)))
    if len(shown.pairs) <= FEW_PAIRS or not shown.several:
        chosen = shown.pairs[:FEW_PAIRS]
        bands = [Band(f"{a + 1} – {b + 1}", places, [float(table[a, b]) for table in shown.by_layer]) for a, b in chosen]
    else:
        kinds = {True: Text("dans un même sens", "within a sense"), False: Text("d'un sens à l'autre", "between senses")}
        bands = []
        for same, name in kinds.items():
            pairs = [pair for pair in shown.pairs if (shown.groups[pair[0]] == shown.groups[pair[1]]) is same]
            values = np.array([[table[pair] for pair in pairs] for table in shown.by_layer])
            if pairs:
                bands.append(Band(name, places, *(bound.tolist() for bound in (values.mean(1), values.min(1), values.max(1)))))
    about = Text(
        "À gauche, la table des mots : le même vecteur partout. Chaque couche y mêle le contexte.",
        "On the left, the table of words: the same vector everywhere. Every layer mixes the context into it.",
    )
    return FigureBlock(Text("Le contexte s'ajoute", "Context comes in"), partial(banded_curves, bands, LAYER, COSINE), about)


def _map(shown: SensesView) -> Block:
    groups = [Text(f"sens {group + 1}", f"sense {group + 1}") for group in shown.groups] if shown.several else None
    about = Text(
        "Les deux directions qui gardent le plus des différences entre les emplois (composantes principales, dernière couche).",
        "The two directions that keep most of the differences between the uses (principal components, last layer).",
    )
    return FigureBlock(
        Text("Les emplois sur un plan", "The uses on a plane"), partial(map_of_uses, shown.vectors, labels(shown), groups), about
    )


def labels(shown: SensesView) -> list[str]:
    """Each use by its number and the words around it."""
    names = []
    for number, (sentence, start, end) in enumerate(shown.spans, 1):
        begin, stop = max(0, start - AROUND), min(len(sentence), end + AROUND)
        around = sentence[begin:stop].strip()
        names.append(f"{number}. {'…' if begin else ''}{around}{'…' if stop < len(sentence) else ''}")
    return names
