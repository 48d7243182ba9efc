"""One step of a recurrent cell, in plain torch.

RNN (Elman 1990)           h = φ(a + U h⁻)                                       φ = tanh or ReLU
LSTM (Hochreiter & Schmidhuber 1997, forget gate of Gers et al. 2000)
                           i, f, g, o = a + U h⁻   (four blocks of N rows)
                           c = σ(f) ⊙ c⁻ + σ(i) ⊙ tanh(g)                        h = σ(o) ⊙ tanh(c)
  with peepholes (Gers & Schmidhuber 2000) the gates see the cell too: i += p_i ⊙ c⁻, f += p_f ⊙ c⁻, o += p_o ⊙ c
GRU (Cho et al. 2014)      r, z = σ(a_{r,z} + U_{r,z} h⁻)                        n = tanh(a_n + r ⊙ (U_n h⁻ + v))
                           h = (1 - z) ⊙ n + z ⊙ h⁻

    a      the input's part W x + b of every gate, computed beforehand        `gates` (B, G·N)
    h⁻, c⁻ the state before the step                                          (B, N)
    U      the state's part of every gate                                     `w_h` (G·N, N)
    p      peepholes, a diagonal each for i, f, o                             `peepholes` (3, N)
    v      bias of the GRU's candidate, inside the reset gate's reach         `b_h` (N,)

Blocks of N rows stand in torch.nn's order: i f g o, and r z n. The GRU resets after the product with U, as torch.nn.GRU and cuDNN do;
Cho et al. reset the state before it. The functions are pure: a model that owns its time loop calls them, and the sequence kernels of
`recurrence.py` are compared with them.
"""

from typing import Literal

import torch
from torch import Tensor

from attentif.kernels.linear import linear

Activation = Literal["tanh", "relu"]


def rnn_step(gates: Tensor, h: Tensor, w_h: Tensor, activation: Activation = "tanh") -> Tensor:
    """(B, N), (B, N), (N, N) → (B, N): the state after the step, which is the output too."""
    total = gates + linear(h, w_h)
    return torch.tanh(total) if activation == "tanh" else torch.relu(total)


def lstm_step(gates: Tensor, h: Tensor, c: Tensor, w_h: Tensor, peepholes: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(B, 4N), (B, N), (B, N), (4N, N), (3, N) → output and cell (B, N) after the step."""
    *_, o, c = lstm_gates(gates, h, c, w_h, peepholes)
    return o * torch.tanh(c), c


def lstm_gates(gates: Tensor, h: Tensor, c: Tensor, w_h: Tensor, peepholes: Tensor | None = None) -> tuple[Tensor, ...]:
    """σ(i), σ(f), tanh(g), σ(o) of a step, and the cell after it, (B, N) each."""
    i, f, g, o = (gates + linear(h, w_h)).chunk(4, -1)
    if peepholes is not None:
        i, f = i + peepholes[0] * c, f + peepholes[1] * c
    i, f, g = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g)
    c = f * c + i * g
    if peepholes is not None:
        o = o + peepholes[2] * c
    return i, f, g, torch.sigmoid(o), c


def gru_step(gates: Tensor, h: Tensor, w_h: Tensor, b_h: Tensor) -> Tensor:
    """(B, 3N), (B, N), (3N, N), (N,) → (B, N): the state after the step, which is the output too."""
    _, z, n = gru_gates(gates, h, w_h, b_h)
    return n + z * (h - n)


def gru_gates(gates: Tensor, h: Tensor, w_h: Tensor, b_h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r, z and n of a step, (B, N) each."""
    N, u = h.shape[-1], linear(h, w_h)
    r, z = torch.sigmoid(gates[..., : 2 * N] + u[..., : 2 * N]).chunk(2, -1)
    return r, z, torch.tanh(gates[..., 2 * N :] + r * (u[..., 2 * N :] + b_h))
