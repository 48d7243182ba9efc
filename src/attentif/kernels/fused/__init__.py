"""A decoding step as a program of instructions that all threads run together, without torch calls.

Importing this package imports numba: do it where a step is about to run.
"""
