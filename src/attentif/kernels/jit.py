"""Compiling loops with numba and running them on several threads.

`jit` compiles loops that torch cannot vectorise, such as recurrences, and caches them on disk. They release the GIL, so `parallel_for`
splits independent items (rows, channels) over a small thread pool; each thread has a fixed range, so the same number of threads gives the
same bits. Unlike numba's own parallel layers this survives forks and calls from several threads. numba is imported on first use.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from attentif.kernels.jit_cache import KernelCache, open_cache

log = logging.getLogger("attentif")
F = TypeVar("F", bound=Callable[..., Any])
Array = np.ndarray  # what compiled functions read and write
_pool: ThreadPoolExecutor | None = None
_inlined: list[tuple[Callable[..., Any], Callable[..., Any] | None]] = []  # not yet registered with numba, with their float32 forms
_with_numba: list[Callable[[], None]] = []
_preparing = threading.Lock()


class Compiled:
    """A compiled function; logs the time of its compilation once."""

    def __init__(self, function: Callable[..., None], **options: Any) -> None:
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.strip('_')}"
        self.function, self.options = function, {"nogil": True, "error_model": "numpy"} | options
        self.call: Any = None
        self.cache: KernelCache | None = None
        self.known = 0  # signatures compiled or loaded so far
        self.compiled = 0  # those not loaded from disk

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

        with _preparing:  # several threads may share a first call
            while _inlined:
                _register_overload(*_inlined.pop())
            while _with_numba:
                _with_numba.pop()()
            if self.call is None:
                call = numba.njit(**self.options)(self.function)
                if (found := open_cache(self.function)) is not None:
                    self.cache = call._cache = found
                self.call = call
        return self.call


def jit(**options: Any) -> Callable[[Callable[..., None]], Compiled]:
    """Compile a loop: `@jit(fastmath={"contract"})`. It writes results into arrays it is given."""
    return lambda function: Compiled(function, **options)


def inline(function: F) -> F:
    """Register a small function that compiled functions call."""
    _inlined.append((function, None))
    return function


def inline_with(single: Callable[..., Any]) -> Callable[[F], F]:
    """Register a small function with `single` as its form for a float32 first argument."""

    def decorate(function: F) -> F:
        _inlined.append((function, single))
        return function

    return decorate


def on_numba_import(register: Callable[[], None]) -> Callable[[], None]:
    """Register work to do after numba is imported, before the first compilation."""
    _with_numba.append(register)
    return register


def _register_overload(function: Callable[..., Any], single: Callable[..., Any] | None) -> None:
    from numba import extending, types

    def choose(*args: Any) -> Callable[..., Any]:
        return single if single is not None and args[0] == types.float32 else function

    # inlined by LLVM: numba's own inlining takes twice as long and warns about repeated calls
    options = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}
    extending.overload(function, jit_options=options, strict=False)(choose)


def parallel_for(kernel: Callable[..., None], items: int, *args: Any) -> None:
    """Run kernel(start, stop, *args) over `items` independent items, a range per thread."""
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
    """Reset the pool in a forked child, which has none of its parent's threads."""
    global _pool, _preparing
    _pool, _preparing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
