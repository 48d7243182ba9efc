"""Loops over time, compiled by numba and shared out over threads.

A recurrence is a loop that torch cannot vectorise and Python is too slow for. `compiled` turns it into machine code, kept on disk for
the next process. It runs without the interpreter's lock, so a small pool of Python threads shares out what is independent (rows,
channels): every thread has a fixed share, and the same number of threads gives the same bits. Neither forking nor calling from several
threads disturbs this, unlike numba's own parallel layers. numba itself is imported when the first of them runs.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from attentif.kernels.jit_cache import KernelCache, open_cache

log = logging.getLogger("attentif")
F = TypeVar("F", bound=Callable[..., Any])
_pool: ThreadPoolExecutor | None = None
_inlined: list[tuple[Callable[..., Any], Callable[..., Any] | None]] = []  # not yet known to numba, with their forms for float32
_with_numba: list[Callable[[], None]] = []
_preparing = threading.Lock()


class Compiled:
    """A compiled function; says once what it took, where it had to be compiled."""

    def __init__(self, function: Callable[..., None], **options: Any) -> None:
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.strip('_')}"
        self.function, self.options = function, {"nogil": True, "error_model": "numpy"} | options
        self.call: Any = None
        self.cache: KernelCache | None = None
        self.known = 0  # signatures compiled or read from the disk so far
        self.compiled = 0  # those that were not on the disk

    def __call__(self, *args: Any) -> None:
        call = self.call or self._prepare()
        begin = time.perf_counter()
        call(*args)
        if len(call.signatures) == self.known:
            return
        self.known, before, self.compiled = len(call.signatures), self.compiled, sum(call.stats.cache_misses.values())
        if self.compiled > before:
            saved = " (saved for next time)" if self.cache is not None and self.cache.saved else ""
            log.info("compiled %s in %.1f s%s", self.name, time.perf_counter() - begin, saved)

    def _prepare(self) -> Any:
        import numba

        with _preparing:  # the threads that share a first call all come here
            while _inlined:
                _make_known(*_inlined.pop())
            while _with_numba:
                _with_numba.pop()()
            if self.call is None:
                call = numba.njit(**self.options)(self.function)
                if (found := open_cache(self.function)) is not None:
                    self.cache = call._cache = found
                self.call = call
        return self.call


def compiled(**options: Any) -> Callable[[Callable[..., None]], Compiled]:
    """Decorator: `@compiled(fastmath={"contract"})`. Results are written into arrays that the caller gives."""
    return lambda function: Compiled(function, **options)


def inlined(function: F) -> F:
    """Decorator of a small function that compiled ones call."""
    _inlined.append((function, None))
    return function


def inlined_with(single: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator of a small function that compiled ones call; `single` is its form where the first argument is a float32."""

    def decorate(function: F) -> F:
        _inlined.append((function, single))
        return function

    return decorate


def with_numba(register: Callable[[], None]) -> Callable[[], None]:
    """Decorator of what must be done once numba is imported, before the first compilation."""
    _with_numba.append(register)
    return register


def _make_known(function: Callable[..., Any], single: Callable[..., Any] | None) -> None:
    from numba import extending, types

    def chosen(*args: Any) -> Callable[..., Any]:
        return single if single is not None and args[0] == types.float32 else function

    # left to LLVM to inline: numba's own inlining takes twice as long and warns where a kernel calls the function several times
    options = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}
    extending.overload(function, jit_options=options, strict=False)(chosen)


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
    global _pool, _preparing
    _pool, _preparing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
