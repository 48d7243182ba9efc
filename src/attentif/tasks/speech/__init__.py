"""Sounds: what is said in them."""
