"""Settings of the whole process: threads, determinism, allocator, which no other module changes; and its memory."""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # <malloc.h>
MEBIBYTE = 1 << 20


def limit_openmp_spinning() -> None:
    """Make idle OpenMP threads sleep soon; call it before torch is imported, because GNU's OpenMP reads the environment once.

    After each parallel operation torch's threads spin for milliseconds on the cores that our kernels' threads need: a Mamba layer took
    1.5 times as long, and five times on a busy machine. A value set by the user is kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


@contextmanager
def configure_process(*, threads: int = 0, deterministic: bool = False) -> Iterator[None]:
    """Set torch's threads (0: as they are) and determinism for the duration of a run, and let glibc keep large buffers."""
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    set_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    keep_buffers()
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])


def set_threads(threads: int) -> None:
    """Set the number of torch's threads; 0 leaves it as it is."""
    import torch

    if threads:
        torch.set_num_threads(threads)


def keep_buffers() -> None:
    """Let glibc keep the large buffers that every step frees and allocates again; glibc cannot undo this.

    By default each buffer above 32 MiB (a batch's logits) is mapped anew, and zeroed page by page: a step of a small language model
    with a vocabulary of 8,000 had 65,000 page faults and took 1.3 s of processor time; with these thresholds 8,000 faults and 1.07 s,
    for up to 1.8 times the memory at its peak. Without such buffers nothing changes: glibc's own thresholds adapt up to there.
    """
    _set_thresholds(mmap=256 * MEBIBYTE, trim=512 * MEBIBYTE, pad=16 * MEBIBYTE)


def release_buffers() -> None:
    """Let glibc give every large buffer back to the system at once.

    Training in shards gathers the weights of a block and drops them, again and again, between smaller buffers that stay: on glibc's heap
    they leave holes, and a process that held 0.8 GB of 97 million parameters in two shards grew to 2.7 GB; mapped, it takes 1.6.
    """
    _set_thresholds(mmap=MEBIBYTE, trim=MEBIBYTE, pad=0)


def _set_thresholds(*, mmap: int, trim: int, pad: int) -> None:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, mmap)
    libc.mallopt(M_TRIM_THRESHOLD, trim)
    libc.mallopt(M_TOP_PAD, pad)


def resident_memory() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
