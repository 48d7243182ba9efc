"""Figures and the HTML page that shows them, in French and English."""

from attentif.view.blocks import AttentionMaps, CodeBlock, Contender, FigureBlock, Paragraph, Score, Section, TableBlock, TokensBlock
from attentif.view.words import Text

__all__ = ["AttentionMaps", "CodeBlock", "Contender", "FigureBlock", "Paragraph", "Score", "Section", "TableBlock", "Text", "TokensBlock"]
