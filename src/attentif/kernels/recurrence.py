"""Sequences through a recurrent cell: what the loops of `rnn.py`, `lstm.py` and `gru.py` share.

A batch is a table of places, of which each sequence takes a run; padded rows and packed sequences are the same to the kernels.

    gates      the input's part of every gate at every place              (M, G·N)
    begin      the place where each sequence's run begins                 (B,)
    lengths    how many places it takes; what no run takes is padding     (B,)

A thread carries its own sequences through time, the longest first: those that have ended fall away at the end of its list, and each step
multiplies only the ones that go on. Nothing waits for the other threads until the last step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.exp import exp
from attentif.kernels.jit import inlined, inlined_with, share

Step = Callable[..., tuple[Tensor, ...]]  # (gates, *state) -> state, whose first tensor is the output


def unrolled(step: Step, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The definition, a step at a time: outputs (M, N), zero on the padding, and the state after each sequence's last place."""
    longest = int(lengths.max()) if len(lengths) else 0
    times = torch.arange(longest, device=gates.device)[:, None]
    live = times < lengths  # (T, B)
    places = torch.where(live, begin + times, 0)
    outputs = []
    for now, alive in zip(gates[places].unbind(0), live[..., None].unbind(0), strict=True):
        state = [torch.where(alive, new, old) for new, old in zip(step(now, *state), state, strict=True)]
        outputs.append(state[0])
    y = gates.new_zeros(len(gates), state[0].shape[-1])
    return (y.index_put((places[live],), torch.stack(outputs)[live]) if outputs else y, *state)


def share_sequences(kernel: Callable[..., None], begin: Tensor, lengths: Tensor, *args: Tensor | bool) -> None:
    """kernel(start, stop, parts, order, begin, lengths, *args): part p has sequences `order[p::parts]`, the longest first."""
    order = torch.sort(lengths, descending=True, stable=True).indices[: int(torch.count_nonzero(lengths))]
    parts = min(torch.get_num_threads(), len(order))
    given = (arg.detach().numpy() if isinstance(arg, Tensor) else arg for arg in (order, begin, lengths, *args))
    share(kernel, parts, parts, *given)


def table(like: Tensor, width: int, lengths: Tensor) -> Tensor:
    """(M, width) for kernels to fill: zero on the padding, where there is some."""
    empty = like.new_empty(len(like), width)
    return empty if int(lengths.sum()) == len(like) else empty.zero_()


def before(h: Tensor, h0: Tensor, begin: Tensor, lengths: Tensor) -> Tensor:
    """(M, N): the state that each place began with."""
    earlier = torch.empty_like(h)
    earlier[1:] = h[:-1]
    some = lengths > 0
    earlier[begin[some]] = h0[some]
    return earlier


def _sigmoid_single(x: Any) -> Any:
    return np.float32(1) / (np.float32(1) + exp(-x))


@inlined_with(_sigmoid_single)
def sigmoid(x: Any) -> Any:
    """σ(x) of one number, for compiled functions."""
    return 1.0 / (1.0 + exp(-x))


def _tanh_single(x: Any) -> Any:
    return np.float32(1) - np.float32(2) / (np.float32(1) + exp(x + x))


@inlined_with(_tanh_single)
def tanh(x: Any) -> Any:
    """tanh x of one number, for compiled functions, to within rounding of 1 (not of tanh x itself where x is small)."""
    return 1.0 - 2.0 / (1.0 + exp(x + x))


# Small loops over a few arrays each: the compiler can tell that these do not overlap, and uses vectors. All stays in the first cache.


@inlined
def add_to(x: np.ndarray, y: np.ndarray) -> None:
    for j in range(len(x)):
        x[j] += y[j]


@inlined
def sum_of(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    """x = y + z"""
    for j in range(len(x)):
        x[j] = y[j] + z[j]


@inlined
def add_product(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    for j in range(len(x)):
        x[j] += y[j] * z[j]


@inlined
def squash(x: np.ndarray) -> None:
    """x = σ(x)"""
    for j in range(len(x)):
        x[j] = sigmoid(x[j])


@inlined
def bend(x: np.ndarray) -> None:
    """x = tanh(x)"""
    for j in range(len(x)):
        x[j] = tanh(x[j])


@inlined
def tanh_of(x: np.ndarray, y: np.ndarray) -> None:
    """x = tanh(y), for two arrays that do not overlap"""
    for j in range(len(x)):
        x[j] = tanh(y[j])


@inlined
def running(t: int, rows: np.ndarray, lengths: np.ndarray, most: int) -> int:
    """How many of the first `most` rows, the longest first, have a place t."""
    while most and lengths[rows[most - 1]] <= t:
        most -= 1
    return most
