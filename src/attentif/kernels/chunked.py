"""Attention inside chunks of a permuted sequence, in one or several rounds.

    y_i = Σ_{j ∈ J_i} softmax_j(q_i · k_j) v_j            J_i = ⊎_r { j : chunk_r(j) is within −before ... +after of chunk_r(i) }

    order       round r puts token order[h, r, s] at position s                       (H, R, T) of one sequence
    chunk       positions in a chunk: the token at position s of round r is in chunk r·C + s // chunk, C chunks a round
    J_i         a multiset: a key that is met in several rounds weighs several times; neighbours are counted in a circle over all R·C
                chunks, each once; `causal` leaves out keys later in the sequence
    own         where False, j = i is left out unless J_i holds nothing else

The rounds' softmaxes, combined by their logsumexp, equal this one softmax (Kitaev et al. 2020, section 2 and appendix A). In text order
with one round it is local attention; sorted by a hash it is LSH attention (`kernels/lsh.py`).

Tokens are concatenated, (N, H, K), with or without padding between the sequences; so are their orders, each (H, R, room):
`order` is one-dimensional. `rows` (B, 5) says of each sequence where its keys begin, how many they are, where its queries begin, the
place of the first of them (queries are the last tokens of what the keys cover), and the room it has, padding counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.exp import exp
from attentif.kernels.jit import Array, inline, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.tile import BYTES, VECTORS, multiply, round_up_rows

OWN = -1e5  # score of an excluded own key: negligible beside any other, dominant alone
LONELY = -1e30  # factor on the stored total of a token alone with its own key, where a logarithm would lose its digits
LEAST = -80  # exp of this is negligible


class Chunks(NamedTuple):
    """Which chunks each token attends to."""

    size: int  # positions in a chunk
    before: int = 1  # chunks seen before one's own
    after: int = 0  # ... and after
    causal: bool = False
    own: bool = True  # attend to the own key; False: only if there is no other


def chunked_attention_naive(q: Tensor, k: Tensor, v: Tensor, order: Tensor, how: Chunks) -> Tensor:
    """The definition, for one whole sequence: (T, H, K), order (H, R, T)."""
    T, H = q.shape[:2]
    heads = []
    for h in range(H):
        chunks = [places for orders in order[h].tolist() for places in _cut(orders, how.size)]
        seen: list[list[int]] = [[] for _ in range(T)]
        for n, queries in enumerate(chunks):
            near = dict.fromkeys((n + d) % len(chunks) for d in range(-how.before, how.after + 1))
            keys = [j for other in near for j in chunks[other]]
            for i in queries:
                seen[i] += [j for j in keys if (j <= i or not how.causal) and (j != i or how.own)]
        steps = []
        for i in range(T):
            keys = seen[i] or [i]
            steps.append((k[keys, h] @ q[i, h]).softmax(0) @ v[keys, h])
        heads.append(torch.stack(steps))
    return torch.stack(heads, 1)


def _cut(places: list[int], size: int) -> list[list[int]]:
    return [places[at : at + size] for at in range(0, len(places), size)]


def chunked_attention(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Chunks) -> Tensor:
    """The same for all sequences: compiled on CPU, gathers elsewhere; zero outside them."""
    if not q.is_cpu:
        return chunked_attention_gather(q, k, v, order, rows, how)
    q, k, v, order, rows = (t.contiguous() for t in (q, k, v, order, rows))
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        y: Tensor = _attend_op(q, k, v, order, rows, [int(value) for value in how])[0]
        return y
    return _attend(q, k, v, order, rows, how)[0]


def chunked_attention_gather(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Chunks) -> Tensor:
    """The same in torch: every chunk's keys are gathered beside its queries."""
    chunk, before, after, causal, own = how
    begin, length, q_begin, start, room = rows.unbind(1)
    H, rounds = q.shape[1], len(order) // (len(k) * q.shape[1])
    place = torch.arange(-(-int(length.max()) // chunk) * chunk, device=q.device)
    line = torch.arange(H * rounds, device=q.device).view(H, rounds, 1)
    cell = begin[:, None, None, None] * H * rounds + line * room[:, None, None, None] + place
    token = order[cell.clamp(max=len(order) - 1)].long()  # (B, H, R, C·chunk)
    token = token.masked_fill(place >= length[:, None, None, None], -1).unflatten(-1, (-1, chunk))
    B, C = len(rows), token.shape[3]
    count = (-(-length // chunk)).clamp(min=1)[:, None, None]  # (B, 1, 1): each row's own chunks in a round
    number = torch.arange(rounds, device=q.device)[:, None] * count + torch.arange(C, device=q.device)  # (B, R, C)
    step = torch.arange(-before, after + 1, device=q.device)
    near = (number[..., None] + step) % (rounds * count[..., None])
    once = step + before < rounds * count[..., None]  # (B, 1, 1, neighbours): in a short circle nobody is met twice
    near = (near // count[..., None] * C + near % count[..., None]).flatten(1)[:, None, :, None].expand(B, H, -1, chunk)
    keys = token.flatten(2, 3).gather(2, near).view(B, H, rounds, C, len(step), chunk)
    keys = keys.masked_fill(~once[:, None, ..., None], -1).flatten(-2)

    head = torch.arange(H, device=q.device)[:, None, None, None]
    asked = token - start[:, None, None, None, None]
    queries = q[(q_begin[:, None, None, None, None] + asked).clamp(0, len(q) - 1), head]  # (B, H, R, C, chunk, K)
    cells = (begin[:, None, None, None, None] + keys.clamp(min=0)).clamp(max=len(k) - 1)
    scores = queries @ k[cells, head].transpose(-1, -2)
    seen = (keys >= 0)[..., None, :]
    if causal:
        seen = seen & (keys[..., None, :] <= token[..., :, None])
    if not own:
        scores = scores.masked_fill(keys[..., None, :] == token[..., :, None], OWN)
    beyond = (token < 0)[..., None]  # past a sequence's end: any finite score
    scores = scores.masked_fill(~seen, -torch.inf).masked_fill(beyond, 0.0)
    y = scores.softmax(-1) @ v[cells, head]

    home = torch.where((asked >= 0) & (token >= 0), q_begin[:, None, None, None, None] + asked, len(q))
    at = (torch.arange(rounds, device=q.device)[:, None, None], home, head.expand_as(home))
    totals = scores.new_zeros(rounds, len(q) + 1, H).index_put(at, scores.logsumexp(-1))
    ys = y.new_zeros(rounds, len(q) + 1, H, y.shape[-1]).index_put(at, y)
    return (totals.softmax(0)[..., None] * ys)[:, :-1].sum(0)


def chunked_weights(q: Tensor, k: Tensor, order: Tensor, row: Tensor, how: Chunks) -> Tensor:
    """Weights (H, queries, keys) of one sequence, summed over the rounds."""
    begin, length, q_begin, start, room = row.tolist()
    H = q.shape[1]
    rounds, chunks = len(order) // (len(k) * H), -(-length // how.size)
    each = H * rounds
    places = order[begin * each : (begin + room) * each].view(H, rounds, room)[..., :length].argsort(-1)  # of each token, in order
    number = places // how.size + chunks * torch.arange(rounds, device=q.device)[:, None]  # (H, R, keys): its chunk
    nearby = min(how.before + how.after + 1, rounds * chunks)
    times = q.new_zeros(H, length - start, length)
    for mine in number[..., start:].unbind(1):
        for other in number.unbind(1):
            apart = other[:, None, :] - mine[:, :, None] + how.before
            times += apart % (rounds * chunks) < nearby
    ahead = torch.arange(length, device=q.device) - torch.arange(start, length, device=q.device)[:, None]
    if how.causal:
        times = times.masked_fill(ahead > 0, 0)
    if not how.own:
        others = times.masked_fill(ahead == 0, 0)
        times = torch.where(others.any(-1, keepdim=True), others, times)
    scores = torch.einsum("qhk,shk->hqs", q[q_begin : q_begin + length - start], k[begin : begin + length])
    return (scores + times.log()).softmax(-1)


def _attend(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the outputs and the log-denominator of each softmax (or see LONELY)."""
    y, total = torch.zeros_like(q), q.new_zeros(q.shape[:2])
    parallel_for(_forward, len(rows) * q.shape[1], *(t.detach().numpy() for t in (q, k, v, order, rows, y, total)), *map(int, how))
    return y, total


@operation("chunked_attention", fake=lambda q, *_: (torch.empty_like(q), q.new_empty(q.shape[:2])))
def _attend_op(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int]) -> tuple[Tensor, Tensor]:
    return _attend(q, k, v, order, rows, how)


@operation("chunked_attention_backward", fake=lambda q, k, v, *_: empty_like(q, k, v))
def _gradients(
    q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, total: Tensor, mean: Tensor, g: Tensor, how: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    arrays = (t.detach().numpy() for t in (q, k, v, order, rows, total, mean, g, dq, dk, dv))
    parallel_for(_backward, len(rows) * q.shape[1], *arrays, *map(int, how))
    return dq, dk, dv


def _backpropagate(
    q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int], y: Tensor, total: Tensor, g: Tensor
) -> tuple[Tensor, ...]:
    return _gradients(q, k, v, order, rows, total, (g * y).sum(-1), g, how)


differentiate(_attend_op, _backpropagate, save=lambda *given: given)


@inline
def _lay(row: Any, panels: Any, at: int) -> None:
    """Copy a row into its column panels, the layout of `kernels/tile.py`."""
    columns = panels.shape[2]
    for first in range(0, len(row), columns):
        part = panels[first // columns, at]
        for c in range(min(columns, len(row) - first)):
            part[c] = row[first + c]


@inline
def _lay_column(column: Any, panels: Any, at: int) -> None:
    """Copy a column into its panel."""
    part = panels[at // panels.shape[2]]
    for d in range(len(column)):
        part[d, at % panels.shape[2]] = column[d]


@inline
def _add(row: Any, change: Any) -> None:
    for d in range(len(row)):
        row[d] += change[d]


@inline
def _members(tokens: Any, places: Any, number: int, chunks: int, size: int, length: int, first: int) -> int:
    """Write the tokens of a chunk at positions ≥ `first` to `tokens`; return their number."""
    turn, begin = number // chunks, number % chunks * size
    n = 0
    for place in range(begin, min(begin + size, length)):
        if places[turn, place] >= first:
            tokens[n] = places[turn, place]
            n += 1
    return n


@inline
def _neighbours(tokens: Any, places: Any, number: int, rounds: int, chunks: int, size: int, length: int, before: int, width: int) -> int:
    """Write the tokens of `width` chunks, starting `before` chunks earlier, in a circle."""
    n, around = 0, rounds * chunks
    for step in range(min(width, around)):
        n += _members(tokens[n:], places, (number - before + step + around) % around, chunks, size, length, 0)
    return n


@jit(fastmath={"contract", "reassoc", "nsz"})
def _forward(
    start: int, stop: int, q: Array, k: Array, v: Array, order: Array, rows: Array, y: Array, total: Array, size: int,
    before: int, after: int, causal: int, own: int
) -> None:  # fmt: skip
    H, K = q.shape[1], q.shape[2]
    R = len(order) // (len(k) * H)
    width, columns = before + after + 1, VECTORS * BYTES // q.itemsize
    most, few = size * width, round_up_rows(size)
    wide, long = -(-K // columns), -(-most // columns)  # in panels
    queries, keys = np.empty(size, order.dtype), np.empty(most, order.dtype)
    Q, KT, V = np.zeros((few, K), q.dtype), np.zeros((long, K, columns), q.dtype), np.zeros((wide, most, columns), q.dtype)
    S, Y = np.zeros((few, long * columns), q.dtype), np.zeros((few, wide * columns), q.dtype)
    none, lowest, alone, least, lonely = np.array([0, -np.inf, OWN, LEAST, LONELY], q.dtype)
    for item in range(start, stop):
        row, h = item // H, item % H
        at, length, q_at, first, room = rows[row]
        places = order[at * H * R : (at + room) * H * R].reshape((H, R, room))[h]
        top = np.full(length - first, lowest, q.dtype)
        chunks = -(-length // size)
        rounds = R if chunks > 1 else 1  # with a single chunk all rounds are equal
        for number in range(rounds * chunks):
            n = _members(queries, places, number, chunks, size, length, first)
            if n == 0:
                continue
            m = _neighbours(keys, places, number, rounds, chunks, size, length, before, width)
            for i in range(n):
                query = q[q_at + queries[i] - first, h]
                for d in range(K):
                    Q[i, d] = query[d]
            for j in range(m):
                _lay_column(k[at + keys[j], h], KT, j)
                _lay(v[at + keys[j], h], V, j)
            multiply(n, Q, KT[: -(-m // columns)], S)
            for i in range(n):
                score = S[i]
                for j in range(m):
                    ahead = keys[j] - queries[i]
                    s = lowest if causal and ahead > 0 else score[j]
                    score[j] = alone if not own and ahead == 0 else s
                highest = score[0]
                for j in range(m):
                    highest = max(highest, score[j])
                cell = queries[i] - first
                old, new = top[cell], max(top[cell], highest)
                weight = none
                for j in range(m):
                    p = exp(score[j] - new)
                    score[j] = p if score[j] - new > least else none
                    weight += score[j]
                faded = exp(old - new) if old > lowest else none
                top[cell] = new
                total[q_at + cell, h] = total[q_at + cell, h] * faded + weight
                for d in range(K):
                    y[q_at + cell, h, d] *= faded
            multiply(n, S, V[:, :m], Y)
            for i in range(n):
                _add(y[q_at + queries[i] - first, h], Y[i])
        for cell in range(length - first):
            for d in range(K):
                y[q_at + cell, h, d] /= total[q_at + cell, h]
            if own or top[cell] > alone:
                total[q_at + cell, h] = top[cell] + np.log(total[q_at + cell, h])
            else:
                total[q_at + cell, h] *= lonely


@jit(fastmath={"contract"})
def _backward(
    start: int, stop: int, q: Array, k: Array, v: Array, order: Array, rows: Array, total: Array, mean: Array, g: Array,
    dq: Array, dk: Array, dv: Array, size: int, before: int, after: int, causal: int, own: int
) -> None:  # fmt: skip
    """∂v = pᵀ g,  ∂s = p ⊙ (g vᵀ − D),  ∂q = ∂s k,  ∂k = ∂sᵀ q, chunk by chunk, with D = g · y."""
    H, K = q.shape[1], q.shape[2]
    R = len(order) // (len(k) * H)
    width, columns = before + after + 1, VECTORS * BYTES // q.itemsize
    most, few, many = size * width, round_up_rows(size), round_up_rows(size * width)
    wide, short = -(-K // columns), -(-size // columns)  # in panels
    queries, keys = np.empty(size, order.dtype), np.empty(most, order.dtype)
    Q, G = np.zeros((wide, size, columns), q.dtype), np.zeros((wide, size, columns), q.dtype)
    QT, GT = np.zeros((short, K, columns), q.dtype), np.zeros((short, K, columns), q.dtype)
    Kn, V, keyed = np.zeros((many, K), q.dtype), np.zeros((many, K), q.dtype), np.zeros((wide, most, columns), q.dtype)
    PT, ST = np.zeros((many, short * columns), q.dtype), np.zeros((many, short * columns), q.dtype)
    S = np.zeros((few, most + 8), q.dtype)  # +8: rows a power of two apart would collide in the cache
    out = np.zeros((many, wide * columns), q.dtype)
    sums, means, met = np.zeros(size, q.dtype), np.zeros(size, q.dtype), np.zeros(size, q.dtype)
    none, lowest, least, lonely = np.array([0, -np.inf, LEAST, LONELY], q.dtype)
    for item in range(start, stop):
        row, h = item // H, item % H
        at, length, q_at, first, room = rows[row]
        places = order[at * H * R : (at + room) * H * R].reshape((H, R, room))[h]
        chunks = -(-length // size)
        rounds = R if chunks > 1 else 1
        for number in range(rounds * chunks):
            n = _members(queries, places, number, chunks, size, length, first)
            if n == 0:
                continue
            m = _neighbours(keys, places, number, rounds, chunks, size, length, before, width)
            for i in range(n):
                cell = q_at + queries[i] - first
                sums[i], means[i] = total[cell, h], mean[cell, h]
                met[i] = lonely / sums[i] if sums[i] <= lonely else none
                _lay(q[cell, h], Q, i)
                _lay(g[cell, h], G, i)
                _lay_column(q[cell, h], QT, i)
                _lay_column(g[cell, h], GT, i)
            for j in range(m):
                key, value = k[at + keys[j], h], v[at + keys[j], h]
                _lay(key, keyed, j)
                for d in range(K):
                    Kn[j, d], V[j, d] = key[d], value[d]
            multiply(m, Kn, QT[: -(-n // columns)], PT)
            multiply(m, V, GT[: -(-n // columns)], ST)
            for j in range(m):
                scores, changes = PT[j], ST[j]
                for i in range(n):
                    ahead = keys[j] - queries[i]
                    s = (lowest if causal and ahead > 0 else scores[i]) - sums[i]
                    p = exp(s)
                    p = p if s > least else none
                    lost = not own and ahead == 0
                    scores[i] = met[i] if lost else p
                    changes[i] = none if lost else p * (changes[i] - means[i])
                for i in range(n):
                    S[i, j] = changes[i]
            multiply(m, PT, G[:, :n], out)
            for j in range(m):
                _add(dv[at + keys[j], h], out[j])
            multiply(m, ST, Q[:, :n], out)
            for j in range(m):
                _add(dk[at + keys[j], h], out[j])
            multiply(n, S, keyed[:, :m], out)
            for i in range(n):
                _add(dq[q_at + queries[i] - first, h], out[i])
