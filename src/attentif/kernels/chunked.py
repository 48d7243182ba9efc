"""Attention inside chunks of a sequence that has been put in some order, once or in several rounds.

    y_i = Σ_{j ∈ J_i} softmax_j(q_i · k_j) v_j            J_i = ⊎_r { j : chunk_r(j) is within −before ... +after of chunk_r(i) }

    order       round r puts token order[h, r, s] at place s                          (H, R, T) of one sequence
    chunk       places in a chunk: the token at place s of round r is in chunk r·C + s // chunk, C chunks a round
    J_i         a multiset: a key that is met in several rounds weighs several times; neighbours are counted in a circle over all R·C
                chunks, each once; `causal` leaves out keys later in the sequence
    own         where False, j = i is left out unless J_i holds nothing else

Each round's softmax, joined by their logsumexp, is this one softmax (Kitaev et al. 2020, section 2 and appendix A). With tokens in their
own order and one round it is local attention; sorted by a hash of theirs it is LSH attention (`kernels/lsh.py`).

Tokens stand end to end, (N, H, K), with or without padding between the sequences, and so do the sequences' orders, each (H, R, room):
`order` is one-dimensional. `rows` (B, 5) says of each sequence where its keys begin, how many they are, where its queries begin, the
place of the first of them (queries are the last tokens of what the keys cover), and the room it has, padding counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attentif.kernels.exp import exp
from attentif.kernels.jit import compiled, inlined, share
from attentif.kernels.operation import differentiate, empty_like, operation
from attentif.kernels.tile import BYTES, VECTORS, multiply, padded_rows

OWN = -1e5  # score of a token's own key where it is left out: nothing beside any other, everything alone
LONELY = -1e30  # what is kept for a token alone with its own key, times how often it met it: there a logarithm's digits would be lost
LEAST = -80  # e to this is nothing beside 1


class Chunks(NamedTuple):
    """Who sees whom."""

    size: int  # places in a chunk
    before: int = 1  # chunks seen before one's own
    after: int = 0  # ... and after
    causal: bool = False
    own: bool = True  # a token sees its own key; False: only where it is alone


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
    """The same for every sequence: compiled on a CPU, by gathers elsewhere. Places of q that are no token's give 0."""
    if not q.is_cpu:
        return chunked_attention_gathered(q, k, v, order, rows, how)
    q, k, v, order, rows = (t.contiguous() for t in (q, k, v, order, rows))
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        y: Tensor = _attend(q, k, v, order, rows, [int(value) for value in how])[0]
        return y
    return _attended(q, k, v, order, rows, how)[0]


def chunked_attention_gathered(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Chunks) -> Tensor:
    """The same in whole tensors: every chunk's keys are gathered beside its queries."""
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
    beyond = (token < 0)[..., None]  # places after a sequence's end: any finite score will do
    scores = scores.masked_fill(~seen, -torch.inf).masked_fill(beyond, 0.0)
    y = scores.softmax(-1) @ v[cells, head]

    home = torch.where((asked >= 0) & (token >= 0), q_begin[:, None, None, None, None] + asked, len(q))
    at = (torch.arange(rounds, device=q.device)[:, None, None], home, head.expand_as(home))
    totals = scores.new_zeros(rounds, len(q) + 1, H).index_put(at, scores.logsumexp(-1))
    ys = y.new_zeros(rounds, len(q) + 1, H, y.shape[-1]).index_put(at, y)
    return (totals.softmax(0)[..., None] * ys)[:, :-1].sum(0)


def chunked_weights(q: Tensor, k: Tensor, order: Tensor, row: Tensor, how: Chunks) -> Tensor:
    """The weights (H, queries, keys) of one sequence, in whole matrices: what each pair weighs in all rounds together."""
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


def _attended(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The outputs, and the logarithm of each softmax's denominator (or see LONELY)."""
    y, total = torch.zeros_like(q), q.new_zeros(q.shape[:2])
    share(_forward, len(rows) * q.shape[1], *(t.detach().numpy() for t in (q, k, v, order, rows, y, total)), *map(int, how))
    return y, total


@operation("chunked_attention", fake=lambda q, *_: (torch.empty_like(q), q.new_empty(q.shape[:2])))
def _attend(q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int]) -> tuple[Tensor, Tensor]:
    return _attended(q, k, v, order, rows, how)


@operation("chunked_attention_backward", fake=lambda q, k, v, *_: empty_like(q, k, v))
def _gradients(
    q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, total: Tensor, mean: Tensor, g: Tensor, how: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    arrays = (t.detach().numpy() for t in (q, k, v, order, rows, total, mean, g, dq, dk, dv))
    share(_backward, len(rows) * q.shape[1], *arrays, *map(int, how))
    return dq, dk, dv


def _backpropagate(
    q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, how: Sequence[int], y: Tensor, total: Tensor, g: Tensor
) -> tuple[Tensor, ...]:
    return _gradients(q, k, v, order, rows, total, (g * y).sum(-1), g, how)


differentiate(_attend, _backpropagate, save=lambda *given: given)


@inlined
def _lay(row: Any, panels: Any, at: int) -> None:
    """A row of a matrix into its panels of columns, as `kernels/tile.py` wants the right-hand side of a product."""
    columns = panels.shape[2]
    for first in range(0, len(row), columns):
        part = panels[first // columns, at]
        for c in range(min(columns, len(row) - first)):
            part[c] = row[first + c]


@inlined
def _lay_column(column: Any, panels: Any, at: int) -> None:
    """The same of a column."""
    part = panels[at // panels.shape[2]]
    for d in range(len(column)):
        part[d, at % panels.shape[2]] = column[d]


@inlined
def _add(row: Any, change: Any) -> None:
    for d in range(len(row)):
        row[d] += change[d]


@inlined
def _members(tokens: Any, places: Any, number: int, chunks: int, size: int, length: int, first: int) -> int:
    """The tokens of chunk `number` that stand at `first` or later in their sequence, written to `tokens`: how many."""
    turn, begin = number // chunks, number % chunks * size
    n = 0
    for place in range(begin, min(begin + size, length)):
        if places[turn, place] >= first:
            tokens[n] = places[turn, place]
            n += 1
    return n


@inlined
def _neighbours(tokens: Any, places: Any, number: int, rounds: int, chunks: int, size: int, length: int, before: int, width: int) -> int:
    """The tokens of the `width` chunks from `before` ones earlier on, in a circle."""
    n, around = 0, rounds * chunks
    for step in range(min(width, around)):
        n += _members(tokens[n:], places, (number - before + step + around) % around, chunks, size, length, 0)
    return n


@compiled(fastmath={"contract", "reassoc", "nsz"})
def _forward(
    start: int,
    stop: int,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    order: np.ndarray,
    rows: np.ndarray,
    y: np.ndarray,
    total: np.ndarray,
    size: int,
    before: int,
    after: int,
    causal: int,
    own: int,
) -> None:
    H, K = q.shape[1], q.shape[2]
    R = len(order) // (len(k) * H)
    width, columns = before + after + 1, VECTORS * BYTES // q.itemsize
    most, few = size * width, padded_rows(size)
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
        rounds = R if chunks > 1 else 1  # in a single chunk every round says the same
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


@compiled(fastmath={"contract"})
def _backward(
    start: int,
    stop: int,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    order: np.ndarray,
    rows: np.ndarray,
    total: np.ndarray,
    mean: np.ndarray,
    g: np.ndarray,
    dq: np.ndarray,
    dk: np.ndarray,
    dv: np.ndarray,
    size: int,
    before: int,
    after: int,
    causal: int,
    own: int,
) -> None:
    """With p the weights and D = g · y: ∂v = pᵀ g,  ∂s = p ⊙ (g vᵀ − D),  ∂q = ∂s k,  ∂k = ∂sᵀ q, chunk by chunk; tiles ending in T lie."""
    H, K = q.shape[1], q.shape[2]
    R = len(order) // (len(k) * H)
    width, columns = before + after + 1, VECTORS * BYTES // q.itemsize
    most, few, many = size * width, padded_rows(size), padded_rows(size * width)
    wide, short = -(-K // columns), -(-size // columns)  # in panels
    queries, keys = np.empty(size, order.dtype), np.empty(most, order.dtype)
    Q, G = np.zeros((wide, size, columns), q.dtype), np.zeros((wide, size, columns), q.dtype)
    QT, GT = np.zeros((short, K, columns), q.dtype), np.zeros((short, K, columns), q.dtype)
    Kn, V, keyed = np.zeros((many, K), q.dtype), np.zeros((many, K), q.dtype), np.zeros((wide, most, columns), q.dtype)
    PT, ST = np.zeros((many, short * columns), q.dtype), np.zeros((many, short * columns), q.dtype)
    S = np.zeros((few, most + 8), q.dtype)  # filled column by column: rows a power of two apart would share few lines of the cache
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
