"""Attentif: every sequence model of the transformer family as a page of TOML."""

__version__ = "0.1.0"
