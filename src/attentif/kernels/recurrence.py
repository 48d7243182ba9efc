"""Shared code of the recurrent loops in `rnn.py`, `lstm.py` and `gru.py`.

A batch is a table of positions in which each sequence is a run, for padded and packed layouts alike.

    gates      the input's part of every gate at every position           (M, G·N)
    begin      the position where each sequence's run begins              (B,)
    lengths    how many positions it takes; what no run takes is padding  (B,)

Each thread steps its own sequences, longest first, so that finished ones drop off the end of its list. Threads do not synchronise between
steps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.exp import exp
from attentif.kernels.jit import Array, inline, inline_with, parallel_for

Step = Callable[..., tuple[Tensor, ...]]  # (gates, *state) -> state, whose first tensor is the output


def unroll(step: Step, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The definition, step by step: outputs (M, N), zero on padding, and the final states."""
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


def split_sequences(kernel: Callable[..., None], begin: Tensor, lengths: Tensor, *args: Tensor | bool) -> None:
    """Run kernel(start, stop, parts, order, begin, lengths, *args); part p has `order[p::parts]`."""
    order = torch.sort(lengths, descending=True, stable=True).indices[: int(torch.count_nonzero(lengths))]
    parts = min(torch.get_num_threads(), len(order))
    given = (arg.detach().numpy() if isinstance(arg, Tensor) else arg for arg in (order, begin, lengths, *args))
    parallel_for(kernel, parts, parts, *given)


def table(like: Tensor, width: int, lengths: Tensor) -> Tensor:
    """Allocate (M, width) for kernels to fill, zeroed if there is padding."""
    empty = like.new_empty(len(like), width)
    return empty if int(lengths.sum()) == len(like) else empty.zero_()


def before(h: Tensor, h0: Tensor, begin: Tensor, lengths: Tensor) -> Tensor:
    """(M, N): the state before each position."""
    earlier = torch.empty_like(h)
    earlier[1:] = h[:-1]
    some = lengths > 0
    earlier[begin[some]] = h0[some]
    return earlier


def _sigmoid_single(x: Any) -> Any:
    return np.float32(1) / (np.float32(1) + exp(-x))


@inline_with(_sigmoid_single)
def sigmoid(x: Any) -> Any:
    """σ(x) of one number, for compiled functions."""
    return 1.0 / (1.0 + exp(-x))


def _tanh_single(x: Any) -> Any:
    return np.float32(1) - np.float32(2) / (np.float32(1) + exp(x + x))


@inline_with(_tanh_single)
def tanh(x: Any) -> Any:
    """tanh x of one number, for compiled functions, accurate relative to 1."""
    return 1.0 - 2.0 / (1.0 + exp(x + x))


# Small loops over a few arrays, which the compiler can vectorise as they do not overlap.


@inline
def add_to(x: Array, y: Array) -> None:
    for j in range(len(x)):
        x[j] += y[j]


@inline
def sum_of(x: Array, y: Array, z: Array) -> None:
    """x = y + z"""
    for j in range(len(x)):
        x[j] = y[j] + z[j]


@inline
def add_product(x: Array, y: Array, z: Array) -> None:
    for j in range(len(x)):
        x[j] += y[j] * z[j]


@inline
def squash(x: Array) -> None:
    """x = σ(x)"""
    for j in range(len(x)):
        x[j] = sigmoid(x[j])


@inline
def bend(x: Array) -> None:
    """x = tanh(x)"""
    for j in range(len(x)):
        x[j] = tanh(x[j])


@inline
def tanh_of(x: Array, y: Array) -> None:
    """x = tanh(y), for two arrays that do not overlap"""
    for j in range(len(x)):
        x[j] = tanh(y[j])


@inline
def count_running(t: int, rows: Array, lengths: Array, most: int) -> int:
    """Return how many of the first `most` rows, longest first, reach position t."""
    while most and lengths[rows[most - 1]] <= t:
        most -= 1
    return most
