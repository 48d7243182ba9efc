"""Architectures side by side at the same budget: `comparison.py` is what users call, `suite.py` what they write.

suite -> plan (sizes solved) -> runner (rates, then runs, in a worker pool) -> gather (one JSON)
"""
