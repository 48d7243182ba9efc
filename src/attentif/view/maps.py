"""Attention maps of a text, by layer and head, as one HTML file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attentif.view.blocks import AttentionMaps, Paragraph, Section
from attentif.view.page import Page, write
from attentif.view.words import Text, Words

HOW_TO_READ = Text(
    "Passez sur un jeton, ou atteignez-le au clavier : les autres se colorent selon l’attention qu’il leur porte.",
    "Point at a token, or reach it by the keyboard: the others are shaded by the attention it pays to them.",
)
MAPS = Text("Cartes d’attention", "Attention maps")


def maps_page(path: Path, maps: Sequence[AttentionMaps], *, title: Words, about: Words = "") -> None:
    """Write a page with a section for each set of maps (self-attention, cross-attention...)."""
    lead = [Paragraph(about, "note")] if about else []
    sections = [Section(shown.title or MAPS, [replace(shown, title="")]) for shown in maps]
    write(path, Page(title, sections, [*lead, Paragraph(HOW_TO_READ)]))
