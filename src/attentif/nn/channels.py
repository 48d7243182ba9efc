"""Maps of mixers in which every channel weighs the past in its own way: shown in groups of neighbouring channels, as their means."""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

MAP_HEADS = 8


def mean_maps(width: int, head: int | None, one: Callable[[int], Tensor]) -> Tensor:
    """(rows, heads, T, S) from the matrix (rows, T, S) of each channel, one at a time: memory does not grow with their number."""
    groups = torch.arange(width).tensor_split(min(MAP_HEADS, width))
    chosen = groups if head is None else groups[head : head + 1]
    return torch.stack([reduce(torch.add, (one(d) for d in group.tolist())) / len(group) for group in chosen], 1)
