"""Mamba-2's state space duality: one decay per head, by chunks (Dao & Gu 2024, listing 1).

    h_t = exp(Δ_t A) h_{t-1} + B_t ⊗ (Δ_t x_t),        y_t = C_t h_t + D x_t

    x        input                                            (B, T, H, K)
    Δ        step sizes (≥ 0; zero leaves the state alone)    (B, T, H)
    A, D     rates of decay (< 0), skip                       (H,)
    B, C     what is written, what is read; H / G heads share one    (B, T, G, S)
    h        state                                            (B, H, S, K)

Within a chunk of Q steps it is attention with decaying weights, y = (C Bᵀ ⊙ L) (Δ x), L[t, s] = exp(Δ_{s+1} A + ... + Δ_t A); between
chunks only the states at their ends are passed on, by a linear recurrence. Time grows with T Q instead of T².
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.kernels.linear_recurrence import linear_recurrence

CHUNK = 64


def ssd_naive(x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """The recurrence: outputs and the final state."""
    shared = len(A) // B.shape[2]
    h, steps = h0, []
    for now, step, write, read in zip(x.unbind(1), delta.unbind(1), B.unbind(1), C.unbind(1), strict=True):
        write, read = (t.repeat_interleave(shared, 1) for t in (write, read))  # (B, H, S)
        h = torch.exp(step * A)[..., None, None] * h + write[..., None] * (step[..., None] * now)[:, :, None]
        steps.append((read[..., None] * h).sum(2) + D[:, None] * now)
    return torch.stack(steps, 1) if steps else torch.empty_like(x), h


def ssd(x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """The same by chunks, on any device."""
    T, G, S, K = x.shape[1], B.shape[2], B.shape[3], x.shape[3]
    if T <= 1:
        return ssd_naive(x, delta, A, B, C, D, h0)
    pad = -T % CHUNK if T > CHUNK else 0
    chunks = lambda t: F.pad(t, (0, 0) * (t.ndim - 2) + (0, pad)).unflatten(1, (-1, min(T, CHUNK)))  # (B, c, Q, ...)
    new = chunks(x * delta[..., None]).unflatten(3, (G, -1)).permute(0, 1, 3, 4, 2, 5)  # (B, c, G, H/G, Q, K)
    passed = chunks(delta * A).unflatten(3, (G, -1)).permute(0, 1, 3, 4, 2).cumsum(-1)  # (B, c, G, H/G, Q)
    write, read = (chunks(t).transpose(2, 3)[:, :, :, None] for t in (B, C))  # (B, c, G, 1, Q, S)
    later = torch.ones(passed.shape[-1], passed.shape[-1], dtype=torch.bool, device=x.device).triu(1)
    decays = (passed[..., :, None] - passed[..., None, :]).masked_fill(later, float("-inf")).exp()
    y = (read @ write.mT * decays) @ new
    own = write.mT @ (new * torch.exp(passed[..., -1:] - passed)[..., None])  # (B, c, G, H/G, S, K)
    whole = passed[..., -1].exp().flatten(2)[..., None].expand(-1, -1, -1, S * K).flatten(2)
    states = linear_recurrence(whole, own.flatten(2), h0.flatten(1))  # (B, c, H S K): after each chunk
    before = torch.cat([h0.flatten(1)[:, None], states[:, :-1]], 1).view_as(own)
    y = y + (read @ before) * passed.exp()[..., None]
    y = y.permute(0, 1, 4, 2, 3, 5).flatten(3, 4).flatten(1, 2)[:, :T]
    return y + D[:, None] * x, states[:, -1].view_as(h0)
