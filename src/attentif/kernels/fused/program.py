"""The instructions of a decoding step, and the loop in which every thread runs them.

An instruction is a row of integers (`code`: opcode, addresses, sizes) and a row of floats (`reals`). Each thread takes pieces of its own
share of an instruction from an atomic counter, so that it reads weights as one stream, then pieces of the others' shares. The next
instruction begins when all pieces are done, not when all threads have arrived: a thread that has no core delays the others by the piece it
holds, if any, and one that comes late, even after the step, finds nothing left to do. Addresses of states are looked up in `slots` by row,
so rows can join and leave without a new program.

    LINEAR   x Wᵀ of up to three matrices for the same x, which is normalised first. What is done with the sums is `then`
    NORM     one norm, stored or added
    ATTEND   a new token's attention; LATENT, CROSS that of latent attention, and to a memory (`attend.py`)
    KEEP     keys and values into the caches, before rows of one text attend to each other
    ROTATE   a buffer turned by its rows' places, head by head
    GATHER   a state of each row into a buffer
    CELL, CONV, SCAN, SHIFT, WKV     steps of recurrences (`recur.py`)
    RECALL   a step of mixers with a matrix of memory for each head (`recall.py`)
    MULTIPLY the product of two buffers, stored or added
    ROUTE, EXPERTS, COMBINE          a mixture of experts: choose, multiply, sum (`choose.py`)
"""

import sys
from typing import Any

import numpy as np
from numba import types

from attentif.kernels.fused.attend import attend_head, attend_latent_head, attend_memory_head, keep_head, rotate_head
from attentif.kernels.fused.choose import combine_channels, multiply_chosen, route_row
from attentif.kernels.fused.machine import OPTIONS, as_floats, fetch_add, load_counter, relax, subroutine
from attentif.kernels.fused.products import activate, multiply_bytes, multiply_floats, multiply_halves, normalise, quantise
from attentif.kernels.fused.recall import recall_head
from attentif.kernels.fused.recur import multiply_channels, step_cell, step_conv, step_scan, step_shift, step_wkv
from attentif.kernels.jit import Array, jit

LINEAR, NORM, ATTEND, GATHER, CELL, CONV, SCAN, SHIFT, WKV, MULTIPLY = range(1, 11)
LATENT, CROSS, ROTATE, KEEP, RECALL, ROUTE, EXPERTS, COMBINE = range(11, 19)
STORE, ADD, GATE = 0, 1, 2  # what a LINEAR does with its sums: y = a(s), y += w·s, y = a(s) ⊙ s'
FLOATS, BYTES, HALVES = 0, 1, 2  # weights in float32, in int8 as of `kernels/int8.py`, in bf16
FIELDS, REALS, MOST_ROWS, CHUNK = 36, 4, 16, 128
# LINEAR: 1 x, 2 its stride, 3 inner size, 4-6 norm (kind, gain, shift), 7 matrices, 8 then, 9 activation, 10 outputs in a piece,
#         from 12 on for each matrix: weight, its type, bias, outputs, target, its stride.   Reals: 0 eps, 1 w
# NORM:   1 x, 2 its stride, 3 size, 4-6 norm, 7 target, 8 its stride, 9 whether added.           Reals: 0 eps, 1 w
# ATTEND: 1 queries, keys and values side by side, 2 their stride, 3 target, 4 heads, 5 groups, 6 width, 7 target's stride,
#         10-11 slots of keys and values, 12 rotated width, 13-14 cos and sin, 15 pairs, 16-18 norm of queries, 19-21 of keys,
#         22 bias by head and distance, 23 its stride, 24 whether the new keys are in the caches. Reals: 0 scale, 1 soft cap, 2 eps
# KEEP:   as of ATTEND, but 4 heads of keys, 25 heads of queries
# GATHER: 1 target, 2 its stride, 3 size, 10 slot
# CELL:   1 the input's part of the gates, 2 its stride, 3 units, 4 kind, 5 the state's part, 6 its stride, 7 target, 8 its stride,
#         9 peepholes or bias, 10-11 slots of output and cell
# CONV:   1 x, 2 its stride, 3 channels, 4 weights by tap, 5 bias, 6 taps, 7 target, 8 its stride, 10 slot of the tail
# SCAN:   1 u, 2 its stride, 3 channels, 4 A by state, 5 D, 6 states, 7 Δ, 8 its stride, 9 gate, 10 slot of h, 11 gate's stride,
#         12 B and C side by side, 13 their stride, 14 target, 15 its stride
# SHIFT:  1 x, 2 its stride, 3 channels, 4 mixes, 10 slot of the last token, from 12 on for each mix: shares, target, its stride
# WKV:    1 k, 2 its stride, 3 channels, 4 decay, 5 bonus, 6 v, 7 its stride, 8 gate, 9 its stride, 10-12 slots of p, q, o, 13-14 target
# MULTIPLY: 1 a, 2 its stride, 3 size, 4 b, 5 its stride, 7 target, 8 its stride, 9 whether added.   Reals: 1 w
# LATENT: 1 queries, 2 their stride, 3 target, 4 heads, 5 width of contents, 6 of positions, 7 target's stride, 8 rank, 9 width of values,
#         10-11 slots of latents and rotary keys, 13-14 cos and sin, 15 pairs, 16-18 norm of the latent, 22 the new latent and rotary
#         key side by side, 23 their stride, 24 W_k, 25 W_v.                                      Reals: 0 scale, 2 eps
# CROSS:  1 queries, 2 their stride, 3 target, 4 heads, 6 width, 7 target's stride, 10-11 slots of keys and values, 12 of their number.
#                                                                                                 Reals: 0 scale
# ROTATE: 1 x, 2 its stride, 4 heads, 6 width, 7 target, 8 its stride, 12-15 as of ATTEND
# RECALL: 4 heads, 5 rows of a memory, 6 its columns, 7 target, 8 its stride, 9 kind, 10 slot of the memories; then pairs of a buffer
#         and its stride:
#         DELTA     12 r, 14 decays, 16 k, 18 v, 20 rates, 22 gate; 24 removed, 25 replaced, 26 bonus, 27-28 norm.  Reals: 0 eps
#         SSD       12 u, 14 Δ, 16 B, 18 C, 20 gate; 24 A, 25 D, 26 groups
#         GATED     12 q, 14 k, 16 v, 18 decays before their sigmoid, 20 gate; 24-26 norm.        Reals: 0 eps, 1 1/τ, 2 scale
#         FEATURES  12 q, 14 k, 16 v; 24 features, 25 whether each is divided by its own sum.     Reals: 0 eps
# ROUTE:  1 logits, 2 their stride, 3 experts, 5 choices, 6 whether sigmoid, 7 target (chosen experts, then their weights), 8 its stride,
#         9 whether the weights sum to 1, 12 bias of the choice, 13 groups, 14 groups chosen from or 0, 15 members that score a group.
#                                                                                                 Reals: 0 factor
# EXPERTS: 1 x, 2 its stride, 3 inner size, 7 matrices, 9 activation, 10 outputs in a piece, 11 choices, from 12 on as of LINEAR (the
#         stack of all experts), 24 what ROUTE found, 25 its stride, 26 experts, 27 whether x has a part for each choice
# COMBINE: 1 x, a part for each choice, 2 its stride, 3 size, 4 what ROUTE found, 5 its stride, 6 choices, 7 target, 8 its stride,
#         9 whether added.                                                                        Reals: 1 w
UNITS = 64  # channels in a piece of recurrences
SPINS = 30_000  # looks at a counter, about a millisecond, before the thread offers its core to others: on a busy machine a core that is
# offered is gone for milliseconds, and the other threads wait for it
MATRIX = 6

if sys.platform == "win32":
    offer_core: Any = relax
else:
    offer_core = types.ExternalFunction("sched_yield", types.int32())


@subroutine
def wait_for(counter: int, wanted: int) -> None:
    spins = 0
    while load_counter(counter) < wanted:
        spins += 1
        if spins > SPINS:
            offer_core()
        else:
            relax()


@subroutine
def take_piece(shares: int, pieces: int, thread: int, threads: int) -> int:
    """The next piece for this thread, from its own share or else from another's; -1 where all are taken."""
    for turn in range(threads):
        owner = (thread + turn) % threads
        begin, end = pieces * owner // threads, pieces * (owner + 1) // threads
        if begin < end:
            piece = begin + fetch_add(shares + 8 * owner, 1)
            if piece < end:
                return piece
    return -1


@subroutine
def count_pieces(f: Any, rows: int) -> int:
    """The number of pieces of an instruction."""
    if f[0] == LINEAR:
        total = 0
        for m in range(1 if f[8] == GATE else f[7]):
            total += (f[12 + MATRIX * m + 3] + f[10] - 1) // f[10]
        return total
    if f[0] == NORM or f[0] == ROUTE:
        return rows
    if f[0] == ATTEND or LATENT <= f[0] <= RECALL:
        return rows * f[4]
    if f[0] == EXPERTS:
        return f[26] * ((f[15] + f[10] - 1) // f[10])
    return rows * ((f[3] + UNITS - 1) // UNITS)


@subroutine
def finish_chunk(f: Any, r: Any, m: int, rows: int, start: int, stop: int, sums: int, others: int) -> None:
    """Bias, activation, and what is done with the sums of a chunk of outputs."""
    field = 12 + MATRIX * m
    size = stop - start
    weight = np.float32(r[1])
    for row in range(rows):
        at = sums + 4 * row * CHUNK
        found = as_floats(at)
        if f[field + 2]:
            bias = as_floats(f[field + 2] + 4 * start)
            for i in range(size):
                found[i] += bias[i]
        if f[9]:
            activate(f[9], at, size)
        target = as_floats(f[field + 4] + 4 * (row * f[field + 5] + start))
        if f[8] == GATE:
            second = as_floats(others + 4 * row * CHUNK)
            if f[field + MATRIX + 2]:
                bias = as_floats(f[field + MATRIX + 2] + 4 * start)
                for i in range(size):
                    second[i] += bias[i]
            for i in range(size):
                target[i] = found[i] * second[i]
        elif f[8] == ADD:
            for i in range(size):
                target[i] += weight * found[i]
        else:
            for i in range(size):
                target[i] = weight * found[i]


@subroutine
def multiply(f: Any, m: int, rows: int, x: int, x_stride: int, q: int, start: int, stop: int, sums: int) -> None:
    field, inner = 12 + MATRIX * m, f[3]
    if f[field + 1] == BYTES:
        blocks = (inner + 31) // 32
        scales = q + MOST_ROWS * 32 * blocks
        offsets = scales + 4 * MOST_ROWS * blocks
        multiply_bytes(f[field], blocks, q, 32 * blocks, scales, offsets, rows, start, stop, sums, CHUNK)
    elif f[field + 1] == HALVES:
        multiply_halves(f[field], inner, x, x_stride, rows, start, stop, sums, CHUNK)
    else:
        multiply_floats(f[field], inner, x, x_stride, rows, start, stop, sums, CHUNK)


@subroutine
def run_linear(f: Any, r: Any, rows: int, piece: int, first: bool, scratch: int) -> None:
    """Some outputs of all rows; with its first piece a thread prepares the input, which takes less time than to wait for another."""
    inner, size = f[3], f[10]
    sums = scratch
    others = sums + 4 * CHUNK * MOST_ROWS
    x, x_stride = f[1], f[2]
    spare = others + 4 * CHUNK * MOST_ROWS
    blocks = (inner + 31) // 32
    q = spare + 4 * MOST_ROWS * blocks * 32
    if f[4]:
        if first:
            for row in range(rows):
                normalise(f[4], x + 4 * row * x_stride, inner, f[5], f[6], r[0], spare + 4 * row * inner)
        x, x_stride = spare, inner
    if first and f[13] == BYTES:
        scales = q + MOST_ROWS * 32 * blocks
        offsets = scales + 4 * MOST_ROWS * blocks
        for row in range(rows):
            quantise(x + 4 * row * x_stride, inner, q + 32 * row * blocks, scales + 4 * row * blocks, offsets + 4 * row * blocks)
    m = 0
    while f[8] != GATE and piece >= (f[12 + MATRIX * m + 3] + size - 1) // size:
        piece -= (f[12 + MATRIX * m + 3] + size - 1) // size
        m += 1
    start = piece * size
    stop = min(start + size, f[12 + MATRIX * m + 3])
    multiply(f, m, rows, x, x_stride, q, start, stop, sums)
    if f[8] == GATE:
        multiply(f, 1, rows, x, x_stride, q, start, stop, others)
    finish_chunk(f, r, m, rows, start, stop, sums, others)


@subroutine
def run_norm(f: Any, r: Any, row: int, scratch: int) -> None:
    size, weight = f[3], np.float32(r[1])
    x, y = f[1] + 4 * row * f[2], f[7] + 4 * row * f[8]
    if f[4] == 0:
        given, found = as_floats(x), as_floats(y)
        for i in range(size):
            found[i] = (found[i] if f[9] else np.float32(0)) + weight * given[i]
    elif f[9] == 0:
        normalise(f[4], x, size, f[5], f[6], r[0], y)
    else:
        normalise(f[4], x, size, f[5], f[6], r[0], scratch)
        found, target = as_floats(scratch), as_floats(y)
        for i in range(size):
            target[i] += weight * found[i]


@subroutine
def run_channels(f: Any, r: Any, piece: int, slots: Any) -> None:
    """What works on each channel alone: some channels of one row at a time."""
    pieces = (f[3] + UNITS - 1) // UNITS
    row, start = piece // pieces, piece % pieces * UNITS
    stop = min(start + UNITS, f[3])
    if f[0] == CELL:
        step_cell(f, row, start, stop, slots)
    elif f[0] == CONV:
        step_conv(f, row, start, stop, slots)
    elif f[0] == SCAN:
        step_scan(f, row, start, stop, slots)
    elif f[0] == SHIFT:
        step_shift(f, row, start, stop, slots)
    elif f[0] == WKV:
        step_wkv(f, row, start, stop, slots)
    elif f[0] == MULTIPLY:
        multiply_channels(f, r, row, start, stop)
    elif f[0] == COMBINE:
        combine_channels(f, r, row, start, stop)
    else:
        target, source = as_floats(f[1] + 4 * row * f[2]), as_floats(slots[f[10], row])
        for i in range(start, stop):
            target[i] = source[i]


@subroutine
def run_heads(f: Any, r: Any, piece: int, places: Any, slots: Any, strides: Any, scratch: int) -> None:
    """What works on each head alone: one head of one row at a time."""
    row, head = piece // f[4], piece % f[4]
    if f[0] == ATTEND:
        attend_head(f, r, row, head, places[row], slots, strides, scratch)
    elif f[0] == LATENT:
        attend_latent_head(f, r, row, head, places[row], slots, strides, scratch)
    elif f[0] == CROSS:
        attend_memory_head(f, r, row, head, slots, strides, scratch)
    elif f[0] == KEEP:
        keep_head(f, r, row, head, places[row], slots, strides, scratch)
    elif f[0] == ROTATE:
        rotate_head(f, row, head, places[row], scratch)
    else:
        recall_head(f, r, row, head, slots, strides, scratch)


@jit(**OPTIONS)
def run(
    thread: int,
    threads: int,
    rows: int,
    code: Array,
    reals: Array,
    places: Array,
    slots: Array,
    strides: Array,
    sync: Array,
    scratch: Array,
) -> None:
    """Run one thread's part; `sync` (instructions, 1 + threads), zero: pieces done, then pieces taken of each thread's share."""
    private = scratch[thread]
    for number in range(len(code)):
        f, r = code[number], reals[number]
        counters = sync[number].ctypes.data
        pieces, own = count_pieces(f, rows), 0
        while True:
            piece = take_piece(counters + 8, pieces, thread, threads)
            if piece < 0:
                break
            if f[0] == LINEAR:
                run_linear(f, r, rows, piece, own == 0, private)
            elif f[0] == NORM:
                run_norm(f, r, piece, private)
            elif f[0] == ATTEND or LATENT <= f[0] <= RECALL:
                run_heads(f, r, piece, places, slots, strides, private)
            elif f[0] == ROUTE:
                route_row(f, r, piece, private)
            elif f[0] == EXPERTS:
                multiply_chosen(f, rows, piece, CHUNK, private)
            else:
                run_channels(f, r, piece, slots)
            own += 1
        if threads > 1:
            fetch_add(counters, own)
            wait_for(counters, pieces)
