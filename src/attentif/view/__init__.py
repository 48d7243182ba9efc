"""Figures and the HTML page that shows them, in French and English."""

from attentif.view.blocks import AttentionMaps, Code, Contender, FigureBlock, Paragraph, Score, Section, Table, Tokens
from attentif.view.words import Text

__all__ = ["AttentionMaps", "Code", "Contender", "FigureBlock", "Paragraph", "Score", "Section", "Table", "Text", "Tokens"]
