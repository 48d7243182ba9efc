"""A decoding step of a mixture of experts; only the chosen experts' matrices are read.

See `program.ROUTE`, `EXPERTS` and `COMBINE` for the fields of the instructions.
"""

from typing import Any

import numpy as np

from attentif.kernels.exp import exp
from attentif.kernels.fused.machine import as_floats, subroutine
from attentif.kernels.fused.products import activate, multiply_floats
from attentif.kernels.fused.recur import squash

LEAST = np.float32(-3.4e38)
MATRIX = 6  # fields of one matrix in an instruction, as of `program.LINEAR`


@subroutine
def route_row(f: Any, r: Any, row: int, scratch: int) -> None:
    """Route one row: its experts, best first, and their weights (`nn/mixers/experts.py`)."""
    experts, choices = f[3], f[5]
    logits = as_floats(f[1] + 4 * row * f[2])
    scores, wanted = as_floats(scratch), as_floats(scratch + 4 * experts)
    largest, total = logits[0], np.float32(0)
    for i in range(experts):
        largest = max(largest, logits[i])
    for i in range(experts):
        scores[i] = squash(logits[i]) if f[6] else exp(logits[i] - largest)
        total += scores[i]
    for i in range(experts):
        if not f[6]:
            scores[i] /= total
        wanted[i] = scores[i] + as_floats(f[12])[i] if f[12] else scores[i]
    if f[14]:
        keep_best_groups(experts, f[13], f[14], f[15], scratch + 4 * experts, scratch + 8 * experts)
    found = as_floats(f[7] + 4 * row * f[8])
    total = np.float32(0)
    for j in range(choices):
        best = 0
        for i in range(experts):
            if wanted[i] > wanted[best]:
                best = i
        wanted[best] = LEAST
        found[j], found[choices + j] = np.float32(best), scores[best]
        total += scores[best]
    factor = np.float32(r[0]) / total if f[9] else np.float32(r[0])
    for j in range(choices):
        found[choices + j] *= factor


@subroutine
def keep_best_groups(experts: int, groups: int, kept: int, best: int, scores: int, spare: int) -> None:
    """Lower the scores of all experts that stand in none of the best groups."""
    wanted, worth = as_floats(scores), as_floats(spare)
    members = experts // groups
    for g in range(groups):
        worth[g] = np.float32(0)
        below, taken = np.float32(3.4e38), 0
        while taken < best:  # the next smaller of its scores, and how often it stands there
            top, times = LEAST, 0
            for i in range(g * members, (g + 1) * members):
                if wanted[i] < below and wanted[i] > top:
                    top, times = wanted[i], 1
                elif wanted[i] == top:
                    times += 1
            times = min(times, best - taken)
            worth[g] += np.float32(times) * top
            below, taken = top, taken + times
    for _ in range(groups - kept):
        worst = 0
        for g in range(groups):
            if worth[g] < worth[worst]:
                worst = g
        worth[worst] = np.float32(3.4e38)
        for i in range(worst * members, (worst + 1) * members):
            wanted[i] = LEAST


@subroutine
def multiply_chosen(f: Any, rows: int, piece: int, chunk_stride: int, scratch: int) -> None:
    """Some outputs of one expert, for all rows that chose it: its weights are read once, or not at all."""
    inner, outputs, size, choices = f[3], f[15], f[10], f[11]
    chunks = (outputs + size - 1) // size
    expert, start = piece // chunks, piece % chunks * size
    stop = min(start + size, outputs)
    sums, others = scratch, scratch + 4 * chunk_stride
    for row in range(rows):
        chosen = as_floats(f[24] + 4 * row * f[25])
        for j in range(choices):
            if np.int64(chosen[j]) != expert:
                continue
            x = f[1] + 4 * (row * f[2] + (j * inner if f[27] else 0))
            multiply_expert(f, 12, expert, x, inner, start, stop, sums, chunk_stride)
            activate(f[9], sums, stop - start)
            found, target = as_floats(sums), as_floats(f[16] + 4 * (row * f[17] + j * outputs + start))
            if f[7] > 1:
                multiply_expert(f, 12 + MATRIX, expert, x, inner, start, stop, others, chunk_stride)
                second = as_floats(others)
                for i in range(stop - start):
                    target[i] = found[i] * second[i]
            else:
                for i in range(stop - start):
                    target[i] = found[i]


@subroutine
def multiply_expert(f: Any, field: int, expert: int, x: int, inner: int, start: int, stop: int, sums: int, stride: int) -> None:
    outputs = f[field + 3]
    multiply_floats(f[field] + 4 * expert * outputs * inner, inner, x, inner, 1, start, stop, sums, stride)
    if f[field + 2]:
        found, bias = as_floats(sums), as_floats(f[field + 2] + 4 * (expert * outputs + start))
        for i in range(stop - start):
            found[i] += bias[i]


@subroutine
def combine_channels(f: Any, r: Any, row: int, start: int, stop: int) -> None:
    """The outputs of a row's experts, weighed and summed."""
    choices, weight = f[6], np.float32(r[1])
    given, y = as_floats(f[4] + 4 * (row * f[5] + choices)), as_floats(f[7] + 4 * row * f[8])
    if not f[9]:
        for i in range(start, stop):
            y[i] = np.float32(0)
    for j in range(choices):
        share, x = weight * given[j], as_floats(f[1] + 4 * (row * f[2] + j * f[3]))
        for i in range(start, stop):
            y[i] += share * x[i]
