"""Architectures side by side at the same budget: `comparison.py` is what users call, `suite.py` what they write.

suite -> plan (sizes solved) -> event (rates, then runs, by a crew of processes) -> gather (one JSON)
"""
