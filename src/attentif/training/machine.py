"""Random seeds and memory of the running process."""

import random
import sys

import numpy as np
import torch


def seed_all(*numbers: int) -> None:
    """Seed every random generator from these numbers, so that a repeated step draws the same."""
    state = np.random.SeedSequence(numbers).generate_state(3)
    torch.default_generator.manual_seed(int(state[0]))  # torch.manual_seed takes milliseconds: it notes the stack for an absent GPU
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(int(state[0]))
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(int(state[0]))
    np.random.seed(int(state[1]))
    random.seed(int(state[2]))


def peak_memory() -> int | None:
    """Peak memory of this process, in bytes."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
