"""A number for a text."""
