"""The machine that a run takes place on: threads, memory, determinism."""

import ctypes
import platform
import random
import sys

import numpy as np
import torch

from attentif.train.config import TrainConfig

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # <malloc.h>
MEBIBYTE = 1 << 20


def set_up(config: TrainConfig) -> None:
    """Threads and allocator of this process."""
    if config.threads:
        torch.set_num_threads(config.threads)
    torch.use_deterministic_algorithms(config.deterministic)
    keep_buffers()


def keep_buffers() -> None:
    """Let glibc keep the large buffers that every step gives back and asks for again.

    By default each buffer above 32 MiB (a batch's logits) is mapped anew, and zeroed page by page: a step of a small language model
    with a vocabulary of 8,000 had 65,000 page faults and took 1.3 s of processor time; with these thresholds 8,000 faults and 1.07 s,
    for up to 1.8 times the memory at its peak. Without such buffers nothing changes: glibc's own thresholds adapt up to there.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, 256 * MEBIBYTE)
    libc.mallopt(M_TRIM_THRESHOLD, 512 * MEBIBYTE)
    libc.mallopt(M_TOP_PAD, 16 * MEBIBYTE)


def seed_all(*numbers: int) -> None:
    """Every generator as a function of these numbers: a step that is repeated draws the same, whatever came before it."""
    state = np.random.SeedSequence(numbers).generate_state(3)
    torch.default_generator.manual_seed(int(state[0]))  # torch.manual_seed takes milliseconds: it notes the stack for an absent GPU
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(int(state[0]))
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(int(state[0]))
    np.random.seed(int(state[1]))
    random.seed(int(state[2]))


def peak_memory() -> int | None:
    """Most bytes that this process held so far."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
