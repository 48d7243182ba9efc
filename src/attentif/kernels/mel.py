"""Log-mel spectrograms.

    X(t, f) = Σ_n w_n x_{t·hop + n - fft/2} e^{-2πi f n / fft}          short-time Fourier transform, w the periodic Hann window
    M(t, m) = Σ_f F(m, f) |X(t, f)|²                                    F: triangles, even on the mel scale
    y(t, m) = ln max(M(t, m), floor)

    htk      mel(f) = 2595 log₁₀(1 + f / 700), triangles of height 1                                   (Young et al., HTK; Kaldi)
    slaney   mel(f) = f / (200/3) below 1 kHz, 15 + 27 ln(f / 1000) / ln 6.4 above, triangles of area 1      (Slaney 1998; librosa)

Frames are centred on multiples of the hop; the sound is mirrored at both ends, and the last frame is dropped, as in Whisper. Whisper then
uses base 10, clips at 8 below the maximum, and scales to about [-1, 1] (Radford et al. 2022):

    y' = (max(y / ln 10, max y / ln 10 - 8) + 4) / 4
"""

import math
from functools import cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Scale = Literal["htk", "slaney"]
FLOOR = 1e-10
BEND, STEP, RATIO = 1000.0, 200.0 / 3, math.log(6.4) / 27  # of Slaney's scale: linear below the bend, logarithmic above
RANGE = 8.0  # powers of ten that Whisper keeps below the loudest


def hz_to_mel(hz: NDArray[np.float64] | float, scale: Scale) -> NDArray[np.float64]:
    hz = np.asarray(hz, dtype=np.float64)
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + hz / 700.0)
    return np.where(hz < BEND, hz / STEP, BEND / STEP + np.log(np.maximum(hz, BEND) / BEND) / RATIO)


def mel_to_hz(mel: NDArray[np.float64] | float, scale: Scale) -> NDArray[np.float64]:
    mel = np.asarray(mel, dtype=np.float64)
    if scale == "htk":
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return np.where(mel < BEND / STEP, mel * STEP, BEND * np.exp(RATIO * (mel - BEND / STEP)))


def band_edges(mels: int, low: float, high: float, scale: Scale) -> NDArray[np.float64]:
    """(mels + 2,) frequencies: band m rises from edge m to m + 1 and falls to m + 2."""
    return mel_to_hz(np.linspace(hz_to_mel(low, scale), hz_to_mel(high, scale), mels + 2), scale)


@cache
def mel_filters(rate: int, fft: int, mels: int, low: float, high: float, scale: Scale) -> Tensor:
    """(mels, fft / 2 + 1): weight of each frequency in each band."""
    edges = band_edges(mels, low, high, scale)
    hz = np.arange(fft // 2 + 1) * (rate / fft)
    rising = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0.0, np.minimum(rising, falling))
    if scale == "slaney":
        filters *= (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return torch.from_numpy(filters)


def log_mel(wave: Tensor, filters: Tensor, *, window: int, hop: int, fft: int, floor: float = FLOOR) -> Tensor:
    """Map samples (samples,) to frames (frames, mels): samples // hop of them, at least one."""
    short = max(fft // 2 + 1, hop) - len(wave)
    wave = F.pad(wave, (0, short)) if short > 0 else wave  # reflection needs enough samples
    hann = torch.hann_window(window, dtype=wave.dtype, device=wave.device)
    spectrum = torch.stft(wave, fft, hop, window, hann, center=True, pad_mode="reflect", return_complex=True)
    power = spectrum[:, :-1].abs().square()  # (fft / 2 + 1, frames)
    return (filters.to(power) @ power).clamp(min=floor).log().T


def whisper_range(y: Tensor, valid: Tensor | None = None) -> Tensor:
    """Scale (B, T, mels) natural logarithms as Whisper does, ignoring invalid frames."""
    y = y / math.log(10)
    heard = y if valid is None else y.masked_fill(~valid[..., None], float("-inf"))
    return (torch.maximum(y, heard.amax((-2, -1), keepdim=True) - RANGE) + 4.0) / 4.0
