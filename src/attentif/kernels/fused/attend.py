"""Attention of one new token over the key-value cache and over a memory.

    y_h = Σ_s softmax_s(c(s q_h·k_s) + b_h(p − s)) v_s          over the positions s that the token at position p may see

Queries and keys are normalised and rotated here. Every head computes the new key for itself, so that heads need not wait for each other;
the first of those that share it writes it down.
"""

import math
from typing import Any

import numpy as np

from attentif.kernels.exp import exp
from attentif.kernels.fused.machine import as_floats, subroutine
from attentif.kernels.fused.products import multiply_floats, normalise

HALF = 0  # pairs of components that turn together: the two halves, or neighbours
ADJACENT = 1


@subroutine
def rotate(x: int, cos: int, sin: int, width: int, pairs: int, place: int, spare: int) -> None:
    """x ⊙ c + x̄ ⊙ s in place (`kernels/rotary.py`)."""
    values, old = as_floats(x), as_floats(spare)
    c, s = as_floats(cos + 4 * place * width), as_floats(sin + 4 * place * width)
    for i in range(width):
        old[i] = values[i]
    if pairs == HALF:
        half = width // 2
        for i in range(half):
            values[i] = old[i] * c[i] + old[i + half] * s[i]
            values[i + half] = old[i + half] * c[i + half] + old[i] * s[i + half]
    else:
        for i in range(0, width, 2):
            values[i] = old[i] * c[i] + old[i + 1] * s[i]
            values[i + 1] = old[i + 1] * c[i + 1] + old[i] * s[i + 1]


@subroutine
def soften(scores: int, count: int) -> None:
    """Softmax in place."""
    values = as_floats(scores)
    most = values[0]
    for i in range(1, count):
        most = max(most, values[i])
    total = np.float32(0)
    for i in range(count):
        weight = exp(values[i] - most)
        values[i] = weight
        total += weight
    inverse = np.float32(1) / total
    for i in range(count):
        values[i] *= inverse


@subroutine
def weigh(weights: int, values: int, width: int, count: int, y: int) -> None:
    """y = Σ_s weights_s values_s."""
    found, given = as_floats(y), as_floats(weights)
    for i in range(width):
        found[i] = np.float32(0)
    for s in range(count):
        weight, row = given[s], as_floats(values + 4 * s * width)
        for i in range(width):
            found[i] += weight * row[i]


@subroutine
def cap_scores(scores: int, count: int, cap: float) -> None:
    values, most = as_floats(scores), np.float32(cap)
    for i in range(count):
        values[i] = most * np.float32(math.tanh(values[i] / most))


@subroutine
def place_head(f: Any, r: Any, x: int, at: int, norm: int, place: int, spare: int, target: int) -> None:
    """Normalise and rotate one head's query or key into `target` (see `program.ATTEND`)."""
    width = f[6]
    given, found = as_floats(x + 4 * at * width), as_floats(target)
    for i in range(width):
        found[i] = given[i]
    if f[norm]:
        normalise(f[norm], target, width, f[norm + 1], f[norm + 2], r[2], target)
    if f[12]:
        rotate(target, f[13], f[14], f[12], f[15], place, spare)


@subroutine
def attend_head(f: Any, r: Any, row: int, head: int, place: int, slots: Any, strides: Any, scratch: int) -> None:
    """One head of one row; see `program.ATTEND` for the fields of the instruction."""
    heads, groups, width = f[4], f[5], f[6]
    group = head * groups // heads
    buffer = f[1] + 4 * row * f[2]  # queries, keys and values of this row
    query, key, spare, scores = scratch, scratch + 4 * width, scratch + 8 * width, scratch + 12 * width
    place_head(f, r, buffer, head, 16, place, spare, query)
    wanted = as_floats(query)
    for i in range(width):
        wanted[i] *= np.float32(r[0])
    keys = slots[f[10], row] + 4 * group * strides[f[10], row, 0]
    values = slots[f[11], row] + 4 * group * strides[f[11], row, 0]
    ring = strides[f[10], row, 1]
    at = place % ring
    new_value = buffer + 4 * (heads + groups + group) * width
    count = min(place + 1, ring)  # keys in the cache; a window's stand in a ring, which holds what it sees
    multiply_floats(keys, width, query, width, 1, 0, count, scores, 1)
    if not f[24]:
        place_head(f, r, buffer + 4 * heads * width, group, 19, place, spare, key)
        if head == (group * heads + groups - 1) // groups:
            copy_floats(key, width, keys + 4 * at * width)
            copy_floats(new_value, width, values + 4 * at * width)
        multiply_floats(key, width, query, width, 1, 0, 1, scores + 4 * at, 1)
    weights = as_floats(scores)
    if f[22]:
        bias = as_floats(f[22] + 4 * head * f[23])
        for s in range(count):
            weights[s] += bias[(at - s) % ring]
    if r[1] > 0:
        cap_scores(scores, count, r[1])
    soften(scores, count)
    target = f[3] + 4 * row * f[7] + 4 * head * width
    if f[24]:
        weigh(scores, values, width, count, target)
    else:
        weigh_with_new(scores, values, width, count, at, new_value, target)


@subroutine
def keep_head(f: Any, r: Any, row: int, group: int, place: int, slots: Any, strides: Any, scratch: int) -> None:
    """The key and the value of one head of one row into its cache; see `program.KEEP`."""
    heads, groups, width = f[25], f[5], f[6]
    buffer = f[1] + 4 * row * f[2]
    keys = slots[f[10], row] + 4 * (group * strides[f[10], row, 0] + place * width)
    values = slots[f[11], row] + 4 * (group * strides[f[11], row, 0] + place * width)
    place_head(f, r, buffer + 4 * heads * width, group, 19, place, scratch, keys)
    copy_floats(buffer + 4 * (heads + groups + group) * width, width, values)


@subroutine
def weigh_with_new(scores: int, values: int, width: int, count: int, at: int, new: int, y: int) -> None:
    """Weighted sum of values, with the new value from its source: the cache may not have it yet."""
    weigh(scores, values, width, at, y)
    found, own, weights = as_floats(y), as_floats(new), as_floats(scores)
    for i in range(width):
        found[i] += weights[at] * own[i]
    for s in range(at + 1, count):
        weight, row = weights[s], as_floats(values + 4 * s * width)
        for i in range(width):
            found[i] += weight * row[i]


@subroutine
def attend_memory_head(f: Any, r: Any, row: int, head: int, slots: Any, strides: Any, scratch: int) -> None:
    """One head of one row to a memory whose keys and values are known; see `program.CROSS`."""
    width = f[6]
    keys = slots[f[10], row] + 4 * head * strides[f[10], row, 0]
    values = slots[f[11], row] + 4 * head * strides[f[11], row, 0]
    count = slots[f[12], row]  # positions of the row's source
    given, query = as_floats(f[1] + 4 * (row * f[2] + head * width)), as_floats(scratch)
    scores = scratch + 4 * width
    for i in range(width):
        query[i] = given[i] * np.float32(r[0])
    multiply_floats(keys, width, scratch, width, 1, 0, count, scores, 1)
    soften(scores, count)
    weigh(scores, values, width, count, f[3] + 4 * (row * f[7] + head * width))


@subroutine
def attend_latent_head(f: Any, r: Any, row: int, head: int, place: int, slots: Any, strides: Any, scratch: int) -> None:
    """One head of latent attention in its absorbed form (`nn/mixers/latent.py`); see `program.LATENT`.

    As above, every head computes the new latent for itself, and the first writes it down.
    """
    K, P, rank, V = f[5], f[6], f[8], f[9]
    wanted, latent, turned = scratch, scratch + 4 * rank, scratch + 8 * rank
    query_place = turned + 4 * P
    spare = query_place + 4 * P
    read = spare + 4 * max(P, 1)
    scores = read + 4 * rank
    count = place + 1
    latents, places = slots[f[10], row], slots[f[11], row]
    source = f[22] + 4 * row * f[23]
    normalise(f[16], source, rank, f[17], f[18], r[2], latent)
    copy_floats(source + 4 * rank, P, turned)
    copy_floats(f[1] + 4 * (row * f[2] + head * (K + P) + K), P, query_place)
    rotate(turned, f[13], f[14], P, f[15], place, spare)
    rotate(query_place, f[13], f[14], P, f[15], place, spare)
    query, absorbed = as_floats(f[1] + 4 * (row * f[2] + head * (K + P))), as_floats(wanted)
    for i in range(rank):
        absorbed[i] = np.float32(0)
    for k in range(K):
        share, line = query[k], as_floats(f[24] + 4 * (head * K + k) * rank)
        for i in range(rank):
            absorbed[i] += share * line[i]
    if head == 0:
        copy_floats(latent, rank, latents + 4 * place * rank)
        copy_floats(turned, P, places + 4 * place * P)
    weights, theirs, own_place = as_floats(scores), as_floats(query_place), as_floats(turned)
    multiply_floats(latents, rank, wanted, rank, 1, 0, place, scores, 1)
    for s in range(place):
        line = as_floats(places + 4 * s * P)
        total = weights[s]
        for i in range(P):
            total += theirs[i] * line[i]
        weights[s] = total
    own, total = as_floats(latent), np.float32(0)
    for i in range(rank):
        total += absorbed[i] * own[i]
    for i in range(P):
        total += theirs[i] * own_place[i]
    weights[place] = total
    for s in range(count):
        weights[s] *= np.float32(r[0])
    soften(scores, count)
    weigh_with_new(scores, latents, rank, count, place, latent, read)
    multiply_floats(f[25] + 4 * head * V * rank, rank, read, rank, 1, 0, V, f[3] + 4 * (row * f[7] + head * V), V)


@subroutine
def copy_floats(x: int, count: int, y: int) -> None:
    given, found = as_floats(x), as_floats(y)
    for i in range(count):
        found[i] = given[i]


@subroutine
def rotate_head(f: Any, row: int, head: int, place: int, scratch: int) -> None:
    """One head of a buffer, rotated into another; see `program.ROTATE`."""
    width = f[6]
    target = f[7] + 4 * (row * f[8] + head * width)
    copy_floats(f[1] + 4 * (row * f[2] + head * width), width, target)
    rotate(target, f[13], f[14], f[12], f[15], place, scratch)
