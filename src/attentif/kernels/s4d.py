"""The diagonal state space S4D (Gu et al. 2022), as a recurrence and as a convolution.

    h_t = z ⊙ h_{t-1} + w x_t,     y_t = 2 Re(C h_t) + D x_t          z = exp(Δ A),   w = (exp(Δ A) − 1) / A
    y = K * x + D x,               K_l = 2 Re Σ_n C_n w_n z_n^l

    x        input                                                                          (B, T, D)
    Δ        step size of each channel                                                      (D,)
    A, C     rates (Re A < 0) and read-out, one of each conjugate pair, complex             (D, S)
    h        state, complex                                                                 (B, D, S)
    D        skip                                                                           (D,)

Nothing depends on the input, so training multiplies spectra (T log T), and decoding steps. Powers of z are taken as z^l = z^{iM} z^j with
l = iM + j, M ≈ √T: products of two small matrices instead of one of T S numbers for each channel. Their exponents are computed in
float64, since a phase of thousands of turns has few digits left in float32.
"""

import math

import torch
from torch import Tensor


def s4d_naive(x: Tensor, delta: Tensor, A: Tensor, C: Tensor, D: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """The recurrence: outputs and the final state."""
    z = torch.exp(delta[:, None] * A)
    w, h, steps = (z - 1) / A, h0, []
    for now in x.unbind(1):
        h = z * h + w * now[..., None]
        steps.append(2 * (C * h).sum(-1).real + D * now)
    return torch.stack(steps, 1) if steps else torch.empty_like(x), h


def s4d(x: Tensor, delta: Tensor, A: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """The convolution from a zero state, by FFT."""
    T = x.shape[1]
    coarse, fine = _powers(delta, A, T)
    kernel = _product(coarse * (2 * C * _input_weights(delta, A))[:, None], fine)[:, :T]  # (D, T)
    places = fast_length(2 * T - 1)
    spectrum = torch.fft.rfft(x.transpose(1, 2), places) * torch.fft.rfft(kernel, places)
    return torch.fft.irfft(spectrum, places)[..., :T].transpose(1, 2) + D * x


def s4d_advance(x: Tensor, delta: Tensor, A: Tensor, C: Tensor, D: Tensor, h0: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs from state h0, and the state after `lengths` tokens of each row; x is zero beyond."""
    if x.shape[1] == 1:
        y, h = s4d_naive(x, delta, A, C, D, h0)
        return y, torch.where(lengths[:, None, None] > 0, h, h0)
    T = x.shape[1]
    coarse, fine = _powers(delta, A, T)
    z = torch.exp(delta[:, None] * A)
    before = _product(coarse * (2 * C * z * h0)[:, :, None], fine)[..., :T]  # (B, D, T)
    back = lengths[:, None] - 1 - torch.arange(coarse.shape[1] * fine.shape[1], device=x.device)  # newest token first
    reverse = x.gather(1, back.clamp(min=0)[..., None].expand(-1, -1, x.shape[2])) * (back >= 0)[..., None]
    pieces = reverse.transpose(1, 2).unflatten(2, (coarse.shape[1], fine.shape[1]))  # (B, D, I, M)
    sums = torch.complex(pieces @ fine.real, pieces @ fine.imag)  # (B, D, I, S)
    gone = torch.exp((delta.double()[:, None] * A.to(torch.complex128)) * lengths[:, None, None]).to(A.dtype)  # (B, D, S)
    h = gone * h0 + _input_weights(delta, A) * (sums * coarse).sum(2)
    return s4d(x, delta, A, C, D) + before.transpose(1, 2), h


def _input_weights(delta: Tensor, A: Tensor) -> Tensor:
    """w, the weight of an input in the state."""
    return (torch.exp(delta[:, None] * A) - 1) / A


def _powers(delta: Tensor, A: Tensor, T: int) -> tuple[Tensor, Tensor]:
    """z^{iM} (D, I, S) and z^j (D, M, S) with I M ≥ T."""
    M = math.isqrt(max(T - 1, 0)) + 1
    exponent = (delta.double()[:, None] * A.to(torch.complex128))[:, None]
    coarse = torch.arange(-(-T // M), device=A.device)[:, None] * M
    fine = torch.arange(M, device=A.device)[:, None]
    return torch.exp(exponent * coarse).to(A.dtype), torch.exp(exponent * fine).to(A.dtype)


def _product(left: Tensor, fine: Tensor) -> Tensor:
    """(..., D, I M): real part of Σ_s left[..., i, s] fine[j, s], as one real product."""
    parts = torch.cat([left.real, -left.imag], -1) @ torch.cat([fine.real, fine.imag], -1).mT
    return parts.flatten(-2)


def fast_length(least: int) -> int:
    """The next length of the form 2^k or 3·2^k."""
    power = 1 << max(0, least - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= least else power
