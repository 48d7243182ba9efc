"""Attention maps of mixers that weigh the past per channel: means over groups of channels."""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

MAP_HEADS = 8


def average_maps(width: int, head: int | None, one: Callable[[int], Tensor]) -> Tensor:
    """Average the channels' matrices (rows, T, S) in groups to (rows, heads, T, S), one at a time."""
    groups = torch.arange(width).tensor_split(min(MAP_HEADS, width))
    chosen = groups if head is None else groups[head : head + 1]
    return torch.stack([reduce(torch.add, (one(d) for d in group.tolist())) / len(group) for group in chosen], 1)
