"""Causal convolution with filters as long as the sequence, one per component.

    y_t = Σ_{s=0}^{t} h_{t-s} ⊙ z_s

    z        what is filtered                              (B, T, D)
    h        filters, h_0 on the token itself              (S, D) with S ≥ T

By FFT it costs T log T: with transforms twice as long as the sequence, nothing wraps around (Cooley & Tukey 1965). Backwards it is a
correlation, ∂z_s = Σ_t h_{t-s} ⊙ g_t and ∂h_r = Σ_t z_{t-r} ⊙ g_t, made of the same spectra times their conjugates.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CELLS = 1 << 18  # numbers transformed at once: components go in groups whose spectra stay in the cache


def long_conv_naive(z: Tensor, h: Tensor) -> Tensor:
    """The equation."""
    T = z.shape[1]
    steps = [(h[: t + 1].flip(0) * z[:, : t + 1]).sum(1) for t in range(T)]
    return torch.stack(steps, 1) if steps else torch.empty_like(z)


def long_conv(z: Tensor, h: Tensor) -> Tensor:
    """The same, by FFT."""
    y: Tensor = _LongConv.apply(z, h[: z.shape[1]])
    return y


def long_conv_at(z: Tensor, h: Tensor, places: Tensor) -> Tensor:
    """(B, D): the outputs at one position of each row, as sums over earlier z."""
    back = places[:, None] - torch.arange(z.shape[1], device=z.device)  # (B or 1, T)
    taps = h[back.clamp(min=0)] * (back >= 0)[..., None]
    return (taps * z).sum(1)


def fast_size(least: int) -> int:
    """Return the smallest FFT-friendly size m·2^i ≥ `least`."""
    return min(m << max(0, (-(-least // m) - 1).bit_length()) for m in (1, 3, 5, 9, 15))


class _LongConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, h: Tensor) -> Tensor:
        ctx.save_for_backward(z, h)
        y = torch.empty_like(z)
        for part, n in _groups(z):
            spectrum = _spectrum(z[..., part], n) * _spectrum(h[:, part], n)
            y[..., part] = _signal(spectrum, n, z.shape[1])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        z, h = ctx.saved_tensors
        dz, dh = torch.empty_like(z), torch.empty_like(h)
        for part, n in _groups(z):
            spectrum = _spectrum(g[..., part], n)
            dz[..., part] = _signal(spectrum * _spectrum(h[:, part], n).conj(), n, z.shape[1])
            dh[:, part] = _signal((spectrum * _spectrum(z[..., part], n).conj()).sum(0), n, h.shape[0])
        return dz, dh


def _groups(z: Tensor) -> list[tuple[slice, int]]:
    """Return groups of components to transform together, and the FFT size."""
    B, T, D = z.shape
    if z.numel() == 0:
        return []
    n = fast_size(2 * T - 1)
    size = max(1, CELLS // (B * n))
    return [(slice(first, first + size), n) for first in range(0, D, size)]


def _spectrum(x: Tensor, n: int) -> Tensor:
    """(..., T, D) to (..., D, n/2 + 1)."""
    return torch.fft.rfft(x.transpose(-1, -2), n)


def _signal(spectrum: Tensor, n: int, length: int) -> Tensor:
    """(..., D, n/2 + 1) to (..., length, D)."""
    return torch.fft.irfft(spectrum, n)[..., :length].transpose(-1, -2)
