"""Measurements: the next steps of a series, a label for a signal."""
