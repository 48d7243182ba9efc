"""A program on all cores: looks up where the states lie, and runs the threads of a step."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.decode.engine.plan import Plan
from attentif.kernels.fused import program
from attentif.nn.state import State, StateTree

_turn = threading.Lock()  # steps of all programs of a process take turns: their threads wait for each other
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


@dataclass(slots=True)
class Binding:
    """Where the states of some rows lie."""

    slots: np.ndarray  # (slots, rows): addresses
    strides: np.ndarray  # (slots, rows, 2): numbers from head to head, places
    kept: list[Tensor]
    longest: int  # places of the longest memory


class ProgramRunner:
    """The finished program of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.code, self.reals = plan.arrays()
        self.scratch, self.private = np.empty(0, np.uint8), np.empty(0, np.int64)
        self.shared_out = (0, 0)  # among so many threads, for a memory of so many places

    def bind(self, states: Sequence[StateTree | dict[str, State]], times: int = 1) -> Binding:
        """Look up where the states lie: of several rows each, in order, each so many times. It holds until a state is replaced."""
        found: list[list[int]] = []
        strides: list[list[tuple[int, int]]] = []
        kept: list[Tensor] = []
        longest = 0
        for path, name in self.plan.slots:
            addresses: list[int] = []
            reach: list[tuple[int, int]] = []
            for tree in states if path else ():  # without a path: a table's line, which each step points to
                state = _state_at(tree, path)
                fanout = getattr(state, "fanout", 1)  # neighbouring rows that share one of a memory
                if name == "lengths":
                    addresses += [length for length in state.source_lengths() for _ in range(fanout)]
                    reach += [(0, 0)] * (len(addresses) - len(reach))
                    longest = max(longest, *addresses)
                    continue
                tensor: Tensor = getattr(state, name)
                if not tensor[0].is_contiguous() or tensor.dtype is not torch.float32:
                    raise ValueError(f"{path}.{name}: a state of other numbers")
                kept.append(tensor)
                addresses += [tensor.data_ptr() + 4 * row * tensor.stride(0) for row in range(len(tensor)) for _ in range(fanout)]
                own = (tensor.stride(1), tensor.shape[2]) if tensor.dim() == 4 else (0, 0)
                reach += [own] * (len(tensor) * fanout)
            found.append(addresses)
            strides.append(reach)
        rows = max(len(states), *map(len, found), 0)
        found = [own or [0] * rows for own in found] or [[0] * rows]
        strides = [own or [(0, 0)] * rows for own in strides] or [[(0, 0)] * rows]
        slots, reaches = np.array(found, np.int64), np.array(strides, np.int64)
        if times > 1:
            slots, reaches = np.repeat(slots, times, 1), np.repeat(reaches, times, 1)
        return Binding(slots, reaches, kept, longest)

    def run(self, rows: int, places: np.ndarray, binding: Binding) -> None:
        """One step of so many rows, whose new tokens stand at these places."""
        threads = torch.get_num_threads()
        with _turn:
            if self.shared_out != (threads, binding.longest):
                self._share_out(threads, binding.longest)
            sync = np.zeros((len(self.code), 1 + threads), np.int64)  # anew: a thread that comes late still looks at those of its step
            shared = (rows, self.code, self.reals, places, binding.slots, binding.strides, sync, self.private)
            others = [_threads(threads - 1).submit(program.run, thread, threads, *shared) for thread in range(1, threads)]
            program.run(0, threads, *shared)
            for other in others:
                other.cancel()

    def _share_out(self, threads: int, longest: int) -> None:
        """Give each thread memory of its own."""
        size = -(-self.plan.scratch_bytes(longest) // 4096) * 4096
        self.scratch = np.empty(size * threads, np.uint8)
        self.private = self.scratch.ctypes.data + size * np.arange(threads, dtype=np.int64)
        self.shared_out = (threads, longest)


def _state_at(tree: StateTree | dict[str, State], path: str) -> Any:
    """The state of a mixer; one inside a mixer of several branches stands behind a slash."""
    state: Any = tree
    for name in path.split("/"):
        state = state[name]
    return state


def _threads(count: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < count:
        _pool, _pool_size = ThreadPoolExecutor(max_workers=count, thread_name_prefix="attentif-engine"), count
    return _pool


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _turn
    _pool, _turn = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
