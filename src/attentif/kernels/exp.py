"""A vectorisable exp(x) for compiled loops.

    exp(x) = 2^n · e^r,     n = round(x / ln 2),     r = x − n ln 2,     |r| ≤ ln 2 / 2

Calls of the library's exp prevent vectorisation. In float32, e^r is a polynomial of degree six (relative error 3e-9, below float32's
6e-8), and 2^n is made by shifting n into the exponent bits. exp(0) is exactly 1; below −87.3 the result stays at
2^−126 (1.2e-38) instead of vanishing, above 88.3 it is infinite, and nan stays nan. float64 falls to the library's exp.

`exp2_decay` is 2^y for y ≤ 0 only, in half as many instructions (degree five, relative error 9e-8): for decays e^{ΔA}, whose rates can be
multiplied by 1 / ln 2 beforehand.
"""

import math
from typing import Any

import numpy as np

from attentif.kernels.jit import inline, inline_with

_LOG2_E = np.float32(1 / math.log(2))
_LN2_HIGH = np.float32(0.693359375)  # few bits: its products with small whole numbers are exact
_LN2_LOW = np.float32(math.log(2) - 0.693359375)
_LEAST, _MOST = np.float32(-87.33654), np.float32(89.0)
_HALF_UP = np.float32(126.5)  # makes the number positive, so that cutting it off rounds it
_SHIFT, _BIAS, _ONE = np.int32(23), np.int32(126), np.float32(1)
_C2, _C3, _C4 = np.float32(0.49999993), np.float32(0.1666652), np.float32(0.04166839)
_C5, _C6 = np.float32(0.00836878), np.float32(0.00138145)

_FEWEST, _HALF = np.float32(-126), np.float32(0.5)
_P1, _P2, _P3 = np.float32(0.693146977598601), np.float32(0.2402224208445123), np.float32(0.055507337436638576)
_P4, _P5 = np.float32(0.009671512700155316), np.float32(0.001326472725554119)


@inline
def _single(x: Any) -> Any:
    x = _LEAST if x < _LEAST else x
    x = _MOST if x > _MOST else x
    n = np.int32(x * _LOG2_E + _HALF_UP)
    whole = np.float32(np.int32(n - _BIAS))
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    q = _C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))
    return (_ONE + (r + r * r * q)) * np.int32(np.int32(n + 1) << _SHIFT).view(np.float32)


@inline_with(_single)
def exp(x: Any) -> Any:
    """e^x of one number, for compiled functions."""
    return math.exp(x)


def _single_exp2_decay(y: Any) -> Any:
    y = _FEWEST if y < _FEWEST else y
    n = np.int32(y - _HALF)
    f = y - np.float32(n)
    p = np.float32(_ONE + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * _P5)))))
    return np.int32(p.view(np.int32) + np.int32(n << _SHIFT)).view(np.float32)  # n added to the exponent's bits


@inline_with(_single_exp2_decay)
def exp2_decay(y: Any) -> Any:
    """2^y of one number y ≤ 0, for compiled functions."""
    return math.exp(y * 0.6931471805599453)


def _single_sigmoid(z: Any) -> Any:
    return _ONE / (_ONE + _single(-z))


@inline_with(_single_sigmoid)
def sigmoid(z: Any) -> Any:
    """1 / (1 + e^-z) of one number, for compiled functions. (A plain 1 would make a float64 of a float32.)"""
    return 1 / (1 + math.exp(-z))
