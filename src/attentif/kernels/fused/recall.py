"""One step of mixers with a matrix memory: RWKV-7, Mamba-2, linear and gated linear attention.

    M ← diag(w) M + k vᵀ,     y = Mᵀ r                   RWKV-7 also takes out what was stored:  + b (aᵀ M)

Each works on one head of one row; see `program.RECALL` for the fields of the instruction.
"""

import math
from typing import Any

import numpy as np

from attentif.kernels.exp import exp
from attentif.kernels.fused.machine import as_floats, subroutine
from attentif.kernels.fused.products import LAYER, normalise
from attentif.kernels.fused.recur import squash

DELTA, SSD, GATED, FEATURES = 0, 1, 2, 3  # kinds: RWKV-7, Mamba-2, gated linear attention, linear attention
ELU, RELU, SQUARED_RELU, SOFTMAX = 0, 1, 2, 3  # features of linear attention


@subroutine
def read_input(f: Any, field: int, row: int, start: int) -> int:
    """Address of number `start` in a row of the buffer that a field names."""
    return f[field] + 4 * (row * f[field + 1] + start)


@subroutine
def write_and_read(memory: int, keys: int, values: int, reader: int, kept: int, key: int, value: int, y: int) -> None:
    """M ← diag(w) M + k vᵀ, y = Mᵀ r."""
    r, w, k, v, found = as_floats(reader), as_floats(kept), as_floats(key), as_floats(value), as_floats(y)
    for j in range(values):
        found[j] = np.float32(0)
    for i in range(keys):
        line, share, written, read = as_floats(memory + 4 * i * values), w[i], k[i], r[i]
        for j in range(values):
            now = share * line[j] + written * v[j]
            line[j] = now
            found[j] += read * now


@subroutine
def recall_head(f: Any, r: Any, row: int, head: int, slots: Any, strides: Any, scratch: int) -> None:
    memory = slots[f[10], row] + 4 * head * strides[f[10], row, 0]
    y = f[7] + 4 * (row * f[8] + head * f[6])
    if f[9] == DELTA:
        recall_delta(f, r, row, head, memory, y, scratch)
    elif f[9] == SSD:
        recall_ssd(f, row, head, memory, y, scratch)
    elif f[9] == GATED:
        recall_gated(f, r, row, head, memory, y, scratch)
    else:
        recall_features(f, r, row, head, memory, y, scratch)


@subroutine
def recall_delta(f: Any, r: Any, row: int, head: int, memory: int, y: int, scratch: int) -> None:
    """RWKV-7 (`nn/mixers/rwkv7.py`): remove κ, write k, then normalise and gate the output."""
    K = f[5]
    at = head * K
    reader, kept, k = as_floats(read_input(f, 12, row, at)), as_floats(read_input(f, 14, row, at)), as_floats(read_input(f, 16, row, at))
    v, rate, gate = as_floats(read_input(f, 18, row, at)), as_floats(read_input(f, 20, row, at)), as_floats(read_input(f, 22, row, at))
    removed, replaced, bonus = as_floats(f[24] + 4 * at), as_floats(f[25] + 4 * at), as_floats(f[26] + 4 * at)
    kappa, key, u, found = as_floats(scratch), as_floats(scratch + 4 * K), as_floats(scratch + 8 * K), as_floats(y)
    square, own = np.float32(0), np.float32(0)
    for i in range(K):
        kappa[i] = k[i] * removed[i]
        square += kappa[i] * kappa[i]
        key[i] = k[i] * (np.float32(1) + (rate[i] - np.float32(1)) * replaced[i])
        own += reader[i] * key[i] * bonus[i]
        u[i], found[i] = np.float32(0), np.float32(0)
    inverse = np.float32(1) / max(np.float32(math.sqrt(square)), np.float32(1e-12))
    for i in range(K):
        kappa[i] *= inverse
        line, read = as_floats(memory + 4 * i * K), -kappa[i]
        for j in range(K):
            u[j] += read * line[j]
    for i in range(K):
        line, share, added, written, read = as_floats(memory + 4 * i * K), kept[i], kappa[i] * rate[i], key[i], reader[i]
        for j in range(K):
            now = share * line[j] + added * u[j] + written * v[j]
            line[j] = now
            found[j] += read * now
    normalise(LAYER, y, K, f[27] + 4 * at, f[28] + 4 * at, r[0], y)
    for i in range(K):
        found[i] = (found[i] + own * v[i]) * gate[i]


@subroutine
def recall_ssd(f: Any, row: int, head: int, memory: int, y: int, scratch: int) -> None:
    """Mamba-2 (`kernels/ssd.py`), and the gate behind it."""
    heads, S, K = f[4], f[5], f[6]
    group = head // (heads // f[26])
    u, z = as_floats(read_input(f, 12, row, head * K)), as_floats(read_input(f, 20, row, head * K))
    step = as_floats(read_input(f, 14, row, head))[0]
    share = exp(step * as_floats(f[24])[head])
    kept, value, found, skip = as_floats(scratch), as_floats(scratch + 4 * S), as_floats(y), as_floats(f[25])[head]
    for i in range(S):
        kept[i] = share
    for j in range(K):
        value[j] = step * u[j]
    write_and_read(memory, S, K, read_input(f, 18, row, group * S), scratch, read_input(f, 16, row, group * S), scratch + 4 * S, y)
    for j in range(K):
        found[j] = (found[j] + skip * u[j]) * z[j] * squash(z[j])


@subroutine
def recall_gated(f: Any, r: Any, row: int, head: int, memory: int, y: int, scratch: int) -> None:
    """Gated linear attention (`nn/mixers/gated_linear.py`): decays, head norm and gate."""
    K, V = f[5], f[6]
    q, logits = as_floats(read_input(f, 12, row, head * K)), as_floats(read_input(f, 18, row, head * K))
    reader, kept, found = as_floats(scratch), as_floats(scratch + 4 * K), as_floats(y)
    scale, slow = np.float32(r[2]), np.float32(r[1])
    for i in range(K):
        reader[i] = q[i] * scale
        x = logits[i]
        kept[i] = exp((min(x, np.float32(0)) - np.float32(math.log1p(math.exp(-abs(x))))) * slow)
    write_and_read(memory, K, V, scratch, scratch + 4 * K, read_input(f, 14, row, head * K), read_input(f, 16, row, head * V), y)
    if f[24]:
        normalise(f[24], y, V, f[25], f[26], r[0], y)
    if f[20]:
        gate = as_floats(read_input(f, 20, row, head * V))
        for j in range(V):
            found[j] *= gate[j] * squash(gate[j])


@subroutine
def feature(kind: int, x: Any) -> Any:
    if kind == ELU:
        return x + np.float32(1) if x > 0 else exp(x)
    return max(x, np.float32(0)) if kind == RELU else max(x, np.float32(0)) * max(x, np.float32(0))


@subroutine
def recall_features(f: Any, r: Any, row: int, head: int, memory: int, y: int, scratch: int) -> None:
    """Linear attention (`nn/mixers/linear.py`); the last memory column sums the key features."""
    K, V, kind, eps = f[5], f[6], f[24], np.float32(r[0])
    q, k, v = (
        as_floats(read_input(f, 12, row, head * K)),
        as_floats(read_input(f, 14, row, head * K)),
        as_floats(read_input(f, 16, row, head * V)),
    )
    reader, kept, key = as_floats(scratch), as_floats(scratch + 4 * K), as_floats(scratch + 8 * K)
    value_at = scratch + 12 * K
    sums_at = value_at + 4 * (V + 1)
    value, sums, found = as_floats(value_at), as_floats(sums_at), as_floats(y)
    largest, total = q[0], np.float32(0)
    for i in range(K):
        largest = max(largest, q[i])
    for i in range(K):
        kept[i] = np.float32(1)
        if kind == SOFTMAX:
            reader[i], key[i] = exp(q[i] - largest), exp(k[i])
            total += reader[i]
        else:
            reader[i], key[i] = feature(kind, q[i]), feature(kind, k[i])
    for i in range(K):
        if kind == SOFTMAX:
            reader[i] /= total
        if f[25]:  # each feature of the keys is divided by its own sum
            reader[i] /= as_floats(memory + 4 * (i * (V + 1) + V))[0] + key[i] + eps
    for j in range(V):
        value[j] = v[j]
    value[V] = np.float32(1)
    write_and_read(memory, K, V + 1, scratch, scratch + 4 * K, scratch + 8 * K, value_at, sums_at)
    divisor = np.float32(1) if f[25] else sums[V] + eps
    for j in range(V):
        found[j] = sums[j] / divisor
