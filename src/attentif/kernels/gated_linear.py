"""Linear attention with a data-dependent decay per key channel.

    S_t = diag(e^{g_t}) S_{t-1} + k_t v_tᵀ,     y_t = S_tᵀ q_t

    q, k     queries and keys                                                       (B, T, H, K)
    v        values                                                                 (B, T, H, V)
    g        logarithm of the decay, at most 0; 0 with a key of zeros (padding) leaves the state as it is     (B, T, H, K)
    S        state                                                                  (B, H, K, V)

Yang et al. 2024 (GLA), section 4. With λ_t the gradient of S_t, backwards:

    λ_t = diag(e^{g_{t+1}}) λ_{t+1} + q_t dy_tᵀ,     dq_t = S_t dy_t,     dk_t = λ_t v_t,     dv_t = λ_tᵀ k_t
    dg_t = Σ_{r ≥ t} (q_r ⊙ dq_r − k_r ⊙ dk_r) + Σ_v λ_T ⊙ S_T

The sum of the last line restarts at every chunk's end from the states there, so its rounding errors do not grow with T.

On CPU the recurrence itself is fastest, as a block of S stays in the first cache. Other devices use chunks, whose exponents are differences
of sums of g that are at most 0.
"""

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attentif.kernels.copy import copy_into, copy_rows_into
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation

COLUMNS = 64  # of S that one piece of work carries through time
SPAN = 64  # steps between two states that the gradient of g starts from
CHUNK, BLOCK = 64, 16  # tokens of a chunk, and of the blocks on its diagonal, in the form for other devices


def gated_linear_naive(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The equation: y (B, T, H, V) and the last state."""
    S, outputs = state, []
    for query, key, value, decay in zip(*(t.unbind(1) for t in (q, k, v, g)), strict=True):
        S = decay.exp()[..., :, None] * S + key[..., :, None] * value[..., None, :]
        outputs.append((query.unsqueeze(-2) @ S).squeeze(-2))
    return torch.stack(outputs, 1) if outputs else torch.empty_like(v), S


def gated_linear(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The same: a compiled loop on CPU, chunks elsewhere."""
    if not q.is_cpu:
        return gated_linear_chunkwise(q, k, v, g, state)
    if q.shape[1] == 1:  # a decoding step
        S = g[:, 0].exp().unsqueeze(-1) * state + k[:, 0].unsqueeze(-1) * v[:, 0].unsqueeze(-2)
        return (q[:, 0].unsqueeze(-2) @ S).transpose(1, 2), S
    y, last = _outputs(*(t.contiguous() for t in (q, k, v, g, state)))
    return y, last


def gated_linear_weights(q: Tensor, k: Tensor, g: Tensor, pos: Tensor) -> Tensor:
    """The implied matrix (B, H, T, S), y = weights @ v, for queries at positions pos (B, T)."""
    total, places = g.cumsum(1), torch.arange(k.shape[1], device=k.device)
    rows = []
    for query, place in zip(q.unbind(1), pos.unbind(1), strict=True):  # row by row: (T, S, K) numbers at once would be too many
        own = total[torch.arange(len(total), device=k.device), place]
        decay = (own[:, None] - total).clamp(max=0).exp()
        row = torch.einsum("bhk,bshk,bshk->bhs", query, k, decay)
        rows.append(row.masked_fill((places > place[:, None])[:, None], 0.0))
    return torch.stack(rows, 2)


def gated_linear_chunkwise(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The same by chunks, recomputed in the backward pass, for devices without the compiled loop."""
    parts = []
    for chunk in zip(*(t.transpose(1, 2).split(CHUNK, 2) for t in (q, k, v, g)), strict=True):
        y, state = checkpoint(_one_chunk, *chunk, state, use_reentrant=False, preserve_rng_state=False)
        parts.append(y.transpose(1, 2))
    return torch.cat(parts, 1) if parts else torch.empty_like(v), state


def _one_chunk(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One chunk (B, H, C, ...): blocks of 16 are compared directly, others by a product."""
    C = q.shape[2]
    missing = -C % BLOCK
    q_, k_, total = (torch.nn.functional.pad(t, (0, 0, 0, missing)) for t in (q, k, g.cumsum(2)))
    blocks = lambda t: t.unflatten(2, (-1, BLOCK))
    begin = blocks(total - torch.nn.functional.pad(g, (0, 0, 0, missing)))[:, :, :, :1]  # (B, H, n, 1, K): before the block's first
    far = (blocks(q_) * (blocks(total) - begin).clamp(max=0).exp()) @ (k_[:, :, None] * (begin - total[:, :, None]).clamp(max=0).exp()).mT
    places = torch.arange(C + missing, device=q.device)
    far = far.masked_fill((places >= blocks(places.view(1, 1, -1))[0, 0, :, :1])[:, None], 0.0).flatten(2, 3)
    decay = (blocks(total).unsqueeze(4) - blocks(total).unsqueeze(3)).clamp(max=0).exp()
    near = torch.einsum("bhnik,bhnjk,bhnijk->bhnij", blocks(q_), blocks(k_), decay).tril()
    for number, own in enumerate(near.unbind(2)):
        at = number * BLOCK
        far = far + torch.nn.functional.pad(own, (at, C + missing - at - BLOCK, at, C + missing - at - BLOCK))
    total = total[:, :, :C]
    y = far[:, :, :C, :C] @ v + (q * total.exp()) @ state
    last = total[:, :, -1:]
    return y, last.mT.exp() * state + (k * (last - total).exp()).mT @ v


@operation("gated_linear", fake=lambda q, k, v, g, state: empty_like(v, state))
def _outputs(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    y, last = empty_like(v, state)
    pieces = state.shape[0] * state.shape[1] * -(-v.shape[3] // COLUMNS)
    parallel_for(_forward, pieces, *(t.detach().numpy() for t in (q, k, v, g.exp(), state, y, last)))
    return y, last


@operation("gated_linear_backward", fake=lambda q, k, v, g, state, *_: empty_like(q, k, v, g, state))
def _gradients(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv, dg, dstate = torch.zeros_like(q), torch.zeros_like(k), torch.empty_like(v), torch.empty_like(g), torch.empty_like(state)
    pieces = state.shape[0] * state.shape[1]
    parallel_for(_backward, pieces, *(t.detach().numpy() for t in (q, k, v, g.exp(), state, dy, dlast, dq, dk, dv, dg, dstate)))
    return dq, dk, dv, dg, dstate


differentiate(_outputs, _gradients, save=lambda q, k, v, g, state, y, last: (q, k, v, g, state), outputs=2)


@jit(fastmath={"contract", "reassoc"})
def _forward(start: int, stop: int, q: Array, k: Array, v: Array, a: Array, state: Array, y: Array, last: Array) -> None:
    T, H, K, V = q.shape[1], q.shape[2], q.shape[3], v.shape[3]
    blocks = -(-V // COLUMNS)
    for piece in range(start, stop):
        row, head, first = piece // (blocks * H), piece // blocks % H, piece % blocks * COLUMNS
        columns = slice(first, min(first + COLUMNS, V))
        S = state[row, head, :, columns].copy()
        for t in range(T):
            value, out = v[row, t, head, columns], y[row, t, head, columns]
            out[:] = 0
            for i in range(K):
                decay, key, query, S_i = a[row, t, head, i], k[row, t, head, i], q[row, t, head, i], S[i]
                for j in range(len(S_i)):
                    new = decay * S_i[j] + key * value[j]
                    S_i[j] = new
                    out[j] += query * new
        copy_rows_into(last[row, head, :, columns], S)


@jit(fastmath={"contract", "reassoc"})
def _backward(
    start: int, stop: int, q: Array, k: Array, v: Array, a: Array, state: Array, dy: Array, dlast: Array, dq: Array, dk: Array,
    dv: Array, dg: Array, dstate: Array
) -> None:  # fmt: skip
    T, H, K, V = q.shape[1], q.shape[2], q.shape[3], v.shape[3]
    spans = -(-T // SPAN)
    for piece in range(start, stop):
        row, head = piece // H, piece % H
        ends = np.empty((spans, K, min(COLUMNS, V)), q.dtype)  # the states after each span
        beyond = np.zeros((spans, K), q.dtype)  # Σ_v λ ⊙ S there
        for first in range(0, V, COLUMNS):
            columns = slice(first, min(first + COLUMNS, V))
            S = state[row, head, :, columns].copy()
            for t in range(T):
                value, dout = v[row, t, head, columns], dy[row, t, head, columns]
                for i in range(K):
                    decay, key, S_i = a[row, t, head, i], k[row, t, head, i], S[i]
                    total = dq[row, t, head, i]
                    for j in range(len(S_i)):
                        new = decay * S_i[j] + key * value[j]
                        S_i[j] = new
                        total += new * dout[j]
                    dq[row, t, head, i] = total
                if (t + 1) % SPAN == 0 or t + 1 == T:
                    copy_rows_into(ends[t // SPAN, :, : S.shape[1]], S)
            copy_rows_into(S, dlast[row, head, :, columns])  # λ from here on
            for t in range(T - 1, -1, -1):
                value, dout, dvalue = v[row, t, head, columns], dy[row, t, head, columns], dv[row, t, head, columns]
                if (t + 1) % SPAN == 0 or t + 1 == T:
                    for i in range(K):
                        for j in range(S.shape[1]):
                            beyond[t // SPAN, i] += S[i, j] * ends[t // SPAN, i, j]
                dvalue[:] = 0
                for i in range(K):
                    decay, key, query, S_i = a[row, t, head, i], k[row, t, head, i], q[row, t, head, i], S[i]
                    total = dk[row, t, head, i]
                    for j in range(len(S_i)):
                        new = S_i[j] + query * dout[j]
                        total += new * value[j]
                        dvalue[j] += new * key
                        S_i[j] = decay * new
                    dk[row, t, head, i] = total
            copy_rows_into(dstate[row, head, :, columns], S)
        running = np.zeros(K, q.dtype)
        for t in range(T - 1, -1, -1):
            if (t + 1) % SPAN == 0 or t + 1 == T:
                copy_into(running, beyond[t // SPAN])
            for i in range(K):
                running[i] += q[row, t, head, i] * dq[row, t, head, i] - k[row, t, head, i] * dk[row, t, head, i]
                dg[row, t, head, i] = running[i]
