"""Extractive question answering: a span of a passage."""
