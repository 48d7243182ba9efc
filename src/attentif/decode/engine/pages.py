"""Weights on huge pages: a step reads them all once, and with pages of 4 KB much of its time goes to looking up where they are."""

import ctypes
import sys
from collections.abc import Iterable

from torch import Tensor

HUGE, PAGE, HEADER = 1 << 21, 1 << 12, 64
COLLAPSE = 25  # MADV_COLLAPSE of <linux/mman.h>: move what is there to huge pages, now (Linux 6.1)


def use_huge_pages(tensors: Iterable[Tensor]) -> None:
    """Ask Linux to back the memory of these tensors by huge pages. No number changes; where it cannot be done, nothing happens."""
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in join_ranges((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors):
        first, last = -(-begin // HUGE) * HUGE, end // HUGE * HUGE
        if first < last:
            advise(first, last - first, COLLAPSE)


def join_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of addresses as few, in order; gaps that an allocator leaves between two tensors are closed."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1] + PAGE + HEADER:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
