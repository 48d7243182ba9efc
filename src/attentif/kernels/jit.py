"""Loops over time, compiled by numba and shared out over threads.

A recurrence is a loop that torch cannot vectorise and Python is too slow for. `compiled` turns it into machine code, kept on disk for
the next process. It runs without the interpreter's lock, so a small pool of Python threads shares out what is independent (rows,
channels): every thread has a fixed share, and the same number of threads gives the same bits. Neither forking nor calling from several
threads disturbs this, unlike numba's own parallel layers. numba itself is imported when the first of them runs.
"""

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

log = logging.getLogger("attentif")
F = TypeVar("F", bound=Callable[..., Any])
_pool: ThreadPoolExecutor | None = None
_inlined: list[Callable[..., Any]] = []  # not yet known to numba


class Compiled:
    """A compiled function; says once what it took, where it had to be compiled."""

    def __init__(self, function: Callable[..., None], **options: Any) -> None:
        self.name = function.__name__.strip("_").replace("_", " ")
        self.function, self.options = function, {"nogil": True, "cache": True, "error_model": "numpy"} | options
        self.call: Any = None
        self.known = 0  # signatures compiled or read from the disk so far

    def __call__(self, *args: Any) -> None:
        if self.known and len(self.call.signatures) == self.known:
            self.call(*args)
            return
        call = self.call or self._prepare()
        begin, hits = time.perf_counter(), sum(call.stats.cache_hits.values())
        call(*args)
        compiled = len(call.signatures) > self.known and sum(call.stats.cache_hits.values()) == hits
        self.known = len(call.signatures)
        if compiled:
            log.info("compiled %s in %.1f s (kept on disk for next time)", self.name, time.perf_counter() - begin)

    def _prepare(self) -> Any:
        import numba

        while _inlined:
            numba.extending.register_jitable(inline="always")(_inlined.pop())
        self.call = numba.njit(**self.options)(self.function)
        return self.call


def compiled(**options: Any) -> Callable[[Callable[..., None]], Compiled]:
    """Decorator: `@compiled(fastmath={"contract"})`. Results are written into arrays that the caller gives."""
    return lambda function: Compiled(function, **options)


def inlined(function: F) -> F:
    """Decorator of a small function that compiled ones call."""
    _inlined.append(function)
    return function


def share(kernel: Callable[..., None], items: int, *args: Any) -> None:
    """kernel(start, stop, *args) for the shares of `items` independent pieces, one a thread."""
    threads = min(torch.get_num_threads(), items)
    if threads <= 1:
        if items:
            kernel(0, items, *args)
        return
    bounds = [items * part // threads for part in range(threads + 1)]
    others = [_threads().submit(kernel, bounds[part], bounds[part + 1], *args) for part in range(1, threads)]
    kernel(0, bounds[1], *args)
    for other in others:
        other.result()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(os.cpu_count() or 1, torch.get_num_threads()), thread_name_prefix="attentif")
    return _pool


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
