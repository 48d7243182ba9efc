"""S4 (Gu et al. 2022): a diagonal plus low-rank state space, as a recurrence and a convolution.

    h_t = Ā h_{t-1} + B̄ x_t,     y_t = 2 Re(C h_t) + D x_t
    Ā = (I − Δ/2 A)⁻¹ (I + Δ/2 A),   B̄ = (I − Δ/2 A)⁻¹ Δ B,     A h = Λ h − P · 2 Re(P* h)
    y = K * x + D x,     K̂(z) = Σ_l K_l z^l = C̃ (I − Ā z)⁻¹ B̄  at the roots z of unity of order L,   C̃ = C (I − Ā^L)

    x          input                                                                        (B, T, D)
    Δ          step size of each channel                                                    (D,)
    Λ, P       the matrix A = Λ − P P*: rates (Re Λ < 0), and its low rank; complex         (D, S)
    B, C       what an input writes, what is read; complex                                  (D, S)
    h          state, one of each conjugate pair                                            (B, D, S)
    D          skip                                                                         (D,)

(I − Ā z)⁻¹ B̄ needs no matrix: with the identity of Woodbury it is four sums Σ_n u_n v_n / (g − λ_n), g = (2/Δ)(1 − z)/(1 + z) (their
Algorithm 1), here multiplied by 1 + z so that nothing is infinite at z = −1. Sums run over both halves of the conjugate pairs, as g is
not real. Only Ā^L is dense; it is taken over the reals, [Re h; Im h], where all maps here are matrices of side N = 2 S.
"""

import math

import torch
from torch import Tensor

from attentif.kernels.s4d import fast_length

Parameters = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]  # Δ, Λ, P, B, C, D


def s4_dplr_naive(x: Tensor, delta: Tensor, rates: Tensor, P: Tensor, B: Tensor, C: Tensor, D: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """The recurrence with its dense matrices over all N complex states: outputs, and the last state."""
    whole = lambda half: torch.cat([half, half.conj()], -1)
    low = whole(P)
    A = torch.diag_embed(whole(rates)) - low[..., :, None] * low.conj()[..., None, :]
    half_step = delta[:, None, None] / 2 * A
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    back = torch.linalg.inv(unit - half_step)
    A_bar, B_bar = back @ (unit + half_step), (back @ whole(delta[:, None] * B)[..., None])[..., 0]
    h, steps = whole(h0), []
    for now in x.unbind(1):
        h = (A_bar @ h[..., None])[..., 0] + B_bar * now[..., None]
        steps.append((whole(C) * h).sum(-1).real + D * now)
    return torch.stack(steps, 1) if steps else torch.empty_like(x), h.chunk(2, -1)[0]


def s4_dplr(x: Tensor, delta: Tensor, rates: Tensor, P: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """The convolution, from an empty state, by FFT."""
    T = x.shape[1]
    kernel = convolution_kernel(T, delta, rates, P, B, C)
    places = fast_length(2 * T - 1)
    spectrum = torch.fft.rfft(x.transpose(1, 2), places) * torch.fft.rfft(kernel, places)
    return torch.fft.irfft(spectrum, places)[..., :T].transpose(1, 2) + D * x


def convolution_kernel(T: int, delta: Tensor, rates: Tensor, P: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """K_0 … K_{T-1} of each channel, (D, T)."""
    L = fast_length(T)
    row = _real_row(C)
    row = row - (row[..., None, :] @ torch.linalg.matrix_power(_discretise(delta, rates, P, B)[0], L))[..., 0, :]
    S = rates.shape[-1]
    truncated = torch.complex(row[..., :S], -row[..., S:]) / 2  # C̃
    angle = -2 * math.pi / L * torch.arange(L // 2 + 1, dtype=torch.float64, device=delta.device)
    z = torch.polar(torch.ones_like(angle), angle)
    minus, plus = (part.to(rates.dtype)[:, None] for part in (_one_minus(angle), 1 + z))  # (F, 1)
    products = torch.stack([truncated * B, truncated * P, P.conj() * B, P.conj() * P], -1)  # (D, S, 4)
    over = lambda pole: 1 / (2 / delta[:, None, None] * minus - pole[:, None] * plus)  # (D, F, S)
    sums = over(rates) @ products + over(rates.conj()) @ products.conj()  # (D, F, 4)
    read_written, read_low, low_written, low = sums.unbind(-1)
    plus = plus[:, 0]
    spectrum = 2 * (read_written - read_low * (plus * low_written) / (1 + plus * low))
    return torch.fft.irfft(spectrum, L)[..., :T]


def s4_dplr_step(x: Tensor, parameters: Parameters, h: Tensor) -> tuple[Tensor, Tensor]:
    """One step of the recurrence without a matrix: outputs (B, D) and the new state, from x (B, D)."""
    delta, rates, P, B, C, D = parameters
    half = (delta / 2)[:, None]
    inner = lambda v: 2 * (P.conj() * v).sum(-1, keepdim=True).real  # P* over both halves of the pairs
    right = h + half * (rates * h - P * inner(h)) + delta[:, None] * B * x[..., None]
    inverse = 1 / (1 - half * rates)
    low = inner(inverse * right) / (1 + half * inner(inverse * P))
    h = inverse * (right - half * P * low)
    return 2 * (C * h).sum(-1).real + D * x, h


def s4_dplr_advance(x: Tensor, parameters: Parameters, h0: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs from state h0, and the state after `lengths` tokens of each row; x is zero beyond."""
    if x.shape[1] == 1:
        y, h = s4_dplr_step(x[:, 0], parameters, h0)
        return y[:, None], torch.where(lengths[:, None, None] > 0, h, h0)
    delta, rates, P, B, C, _ = parameters
    A_bar, B_bar = _discretise(delta, rates, P, B)
    T, h = x.shape[1], torch.cat([h0.real, h0.imag], -1)  # (B, D, N)
    M = math.isqrt(T - 1) + 1
    pieces = -(-T // M)
    A_piece = torch.linalg.matrix_power(A_bar, M)
    apply = lambda A, v: (A @ v[..., None])[..., 0]
    # outputs of h0: C Ā^{iM} · Ā^{j+1} h0
    read, states = [_real_row(C)], [apply(A_bar, h)]
    for _ in range(pieces - 1):
        read.append((read[-1][..., None, :] @ A_piece)[..., 0, :])
    for _ in range(M - 1):
        states.append(apply(A_bar, states[-1]))
    before = (torch.stack(read, -2) @ torch.stack(states, -1)).flatten(-2)[..., :T]  # (B, D, T)
    # the last state: inputs from the newest on, in pieces of M
    written = [B_bar]
    for _ in range(M - 1):
        written.append(apply(A_bar, written[-1]))
    back = lengths[:, None] - 1 - torch.arange(pieces * M, device=x.device)
    newest = x.gather(1, back.clamp(min=0)[..., None].expand(-1, -1, x.shape[2])) * (back >= 0)[..., None]
    sums = newest.transpose(1, 2).unflatten(2, (pieces, M)) @ torch.stack(written, -2)  # (B, D, I, N)
    last = sums[:, :, -1]
    for piece in range(pieces - 2, -1, -1):
        last = apply(A_piece, last) + sums[:, :, piece]
    power, left = A_bar, lengths[:, None, None]
    for _ in range(T.bit_length()):  # Ā^length h0, by the bits of each row's length
        h = torch.where(left % 2 == 1, apply(power, h), h)
        power, left = power @ power, left // 2
    S = rates.shape[-1]
    last = last + h
    return s4_dplr(x, *parameters) + before.transpose(1, 2), torch.complex(last[..., :S], last[..., S:])


def hippo_legs(N: int) -> tuple[Tensor, Tensor, Tensor]:
    """HiPPO-LegS as Λ − P P* and B: one of each conjugate pair, (N / 2,) each, in float64.

    A_nk = −√(2n+1)√(2k+1) below the diagonal and −(n+1) on it; A + P Pᵀ with P_n = √(n + 1/2) is −1/2 plus a skew-symmetric matrix.
    """
    n = torch.arange(N, dtype=torch.float64, device="cpu")  # also where models are built without memory
    P, B = torch.sqrt(n + 0.5), torch.sqrt(2 * n + 1)
    lower = torch.tril(P[:, None] * P - B[:, None] * B, -1)
    skew = lower - lower.mT
    frequencies, V = torch.linalg.eigh(skew * -1j)
    frequencies, V = frequencies[N // 2 :], V[:, N // 2 :]  # in ascending order: the positive half
    rates = torch.complex(torch.full_like(frequencies, -0.5), frequencies)
    return rates, V.mH @ P.to(V.dtype), V.mH @ B.to(V.dtype)


def _discretise(delta: Tensor, rates: Tensor, P: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Ā (D, N, N) and B̄ (D, N) over the reals."""
    low = torch.cat([P.real, P.imag], -1)
    turn = torch.diag_embed(rates.imag)
    decay = torch.diag_embed(rates.real)
    A = torch.cat([torch.cat([decay, -turn], -1), torch.cat([turn, decay], -1)], -2) - 2 * low[..., :, None] * low[..., None, :]
    unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    half = delta[:, None, None] / 2 * A
    solved = torch.linalg.solve(unit - half, torch.cat([unit + half, (delta[:, None] * torch.cat([B.real, B.imag], -1))[..., None]], -1))
    return solved[..., :-1], solved[..., -1]


def _real_row(C: Tensor) -> Tensor:
    """2 Re(C h) as a row over [Re h; Im h]."""
    return 2 * torch.cat([C.real, -C.imag], -1)


def _one_minus(angle: Tensor) -> Tensor:
    """1 − e^{i angle} without cancellation."""
    return torch.polar(2 * torch.sin(angle / 2), angle / 2) * -1j
