"""Attention maps of a text, by layer and head, as one HTML file."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attentif.view.blocks import AttentionMaps, Paragraph, Section
from attentif.view.page import Fragment, Page, write
from attentif.view.words import Text, Words

HOW_TO_READ = Text(
    "Passez sur un jeton, ou atteignez-le au clavier : les autres se colorent selon l’attention qu’il leur porte.",
    "Point at a token, or reach it by the keyboard: the others are shaded by the attention it pays to them.",
)
MAPS = Text("Cartes d’attention", "Attention maps")


def maps_page(path: Path, maps: Sequence[AttentionMaps], *, title: Words) -> None:
    """Write a page with a section for each set of maps (self-attention, cross-attention...)."""
    sections = [Section(shown.title or MAPS, [replace(shown, title="")]) for shown in maps]
    write(path, Page(title, sections, [Paragraph(HOW_TO_READ)]))


@dataclass(frozen=True)
class Maps:
    """Attention maps of a text: shown by a notebook, or saved as one HTML file."""

    text: str
    maps: list[AttentionMaps]

    def save(self, path: str | Path) -> Path:
        maps_page(Path(path), self.maps, title=self.text)
        return Path(path)

    def _repr_html_(self) -> str:
        return Fragment([Section(shown.title, [shown]) for shown in self.maps])._repr_html_()


def choose_layers(shown: AttentionMaps, layers: Collection[int]) -> AttentionMaps:
    """The weights of some layers; their names hold their numbers: "encoder 1 attn"."""
    weights = {name: value for name, value in shown.weights.items() if (n := re.search(r" (\d+)( |$)", name)) and int(n[1]) in layers}
    return replace(shown, weights=weights)
