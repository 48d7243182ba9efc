"""Dropout.

    y = x ⊙ m / (1 − p)        mᵢ = 1 with probability 1 − p, else 0            (Srivastava et al. 2014)

torch draws the mask number by number on one core: 9 % of a small encoder's training step. Here one 64-bit number gives four 16-bit ones,
so p is exact to within 1/131,072; the scale uses the actual p, so the mean is exact.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Drop components of x with probability p, in training."""
    if not training or p == 0.0:
        return x
    if not x.is_cpu or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * mask(x, p)


def mask(x: Tensor, p: float) -> Tensor:
    """m / (1 − p), shaped as x."""
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)  # of the whole range
    kept = bits[: x.numel()] >= dropped - LEVELS // 2
    return kept.to(x.dtype).mul_(LEVELS / (LEVELS - dropped)).view(x.shape)
