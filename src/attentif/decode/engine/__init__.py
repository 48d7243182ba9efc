"""Fused decoding: a stack as a program of compiled instructions, a step of which makes no call to torch."""

from attentif.decode.engine.engine import Engine, find_engine

__all__ = ["Engine", "find_engine"]
