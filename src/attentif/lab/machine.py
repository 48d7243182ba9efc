"""What a measurement is taken on: the processor, the memory there is, and the memory that a computation takes.

The peak is the operating system's own count of the pages that this process holds (VmHWM in Linux's /proc/self/status), set back before the
call: weights and inputs, which are there before, are not in it; activations, gradients and the kernels' own buffers are. Before the call
the allocator is asked to give back what it only keeps (malloc_trim), or a second call would seem to need nothing.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
RESET_PEAK = "5"  # Linux: Documentation/filesystems/proc.rst


def processor() -> str:
    """Description of the processor: "2 cores of AMD EPYC"."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return f"{len(names)} cores of {names[0]}" if names else f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"


def available_memory() -> int | None:
    """Bytes that may still be asked for; None where this system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
        return min(free, _cgroup_limit(free))
    except (OSError, StopIteration, ValueError):
        return None


def _cgroup_limit(free: int) -> int:
    """Memory left by the limit of the container."""
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):  # no such limit, or "max"
        return free


def measures_memory() -> bool:
    """Whether the peak of a call can be measured here: Linux lets a process set its own peak back."""
    return sys.platform == "linux" and os.access(RESET, os.W_OK)


def peak_bytes(call: Callable[[], object]) -> int | None:
    """Most bytes that the process held during the call, above what it held before; None where that cannot be known."""
    if not measures_memory():
        call()
        return None
    _trim_heap()
    RESET.write_text(RESET_PEAK)
    before = read_memory("VmRSS")
    call()
    return max(0, read_memory("VmHWM") - before)


def read_memory(which: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the peak."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def _trim_heap() -> None:
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
