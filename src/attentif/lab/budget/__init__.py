"""Budgets, and models at the size that meets one: `budget.py` says what each kind counts."""

from attentif.lab.budget.budget import TOLERANCE, Budget, Setting, Solved, amount_words, solve

__all__ = ["TOLERANCE", "Budget", "Setting", "Solved", "amount_words", "solve"]
