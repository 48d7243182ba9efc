"""Log-mel frames against the definition written out in numpy, step by step."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attentif.kernels.mel import band_edges, hz_to_mel, log_mel, mel_filters, mel_to_hz, whisper_range

RATE, WINDOW, HOP, FFT, MELS = 8000, 200, 80, 256, 26


def sound(seconds: float = 0.3) -> np.ndarray:
    time = np.arange(round(RATE * seconds)) / RATE
    return (
        0.4 * np.sin(2 * np.pi * 440 * time)
        + 0.1 * np.sin(2 * np.pi * 2500 * time)
        + 0.01 * np.random.default_rng(0).normal(size=len(time))
    )


def mel_of(hz: float, scale: str) -> float:
    if scale == "htk":
        return 2595 * math.log10(1 + hz / 700)
    return hz / (200 / 3) if hz < 1000 else 15 + 27 * math.log(hz / 1000) / math.log(6.4)


def filters_written_out(scale: str) -> np.ndarray:
    """Triangles between points that stand evenly on the mel scale, found by bisection instead of the inverse formula."""
    low, high = mel_of(0, scale), mel_of(RATE / 2, scale)
    points = []
    for n in range(MELS + 2):
        below, above = 0.0, RATE / 2
        for _ in range(80):
            middle = (below + above) / 2
            below, above = (middle, above) if mel_of(middle, scale) < low + (high - low) * n / (MELS + 1) else (below, middle)
        points.append(below)
    table = np.zeros((MELS, FFT // 2 + 1))
    for m in range(MELS):
        left, top, right = points[m : m + 3]
        for k in range(FFT // 2 + 1):
            hz = k * RATE / FFT
            if left < hz < right:
                table[m, k] = (hz - left) / (top - left) if hz <= top else (right - hz) / (right - top)
        if scale == "slaney":
            table[m] *= 2 / (right - left)
    return table


def frames_written_out(wave: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """A mirrored sound, a Hann window in the middle of each transform, sums of cosines and sines, triangles, a logarithm."""
    half = FFT // 2
    mirrored = np.concatenate([wave[half:0:-1], wave, wave[-2 : -half - 2 : -1]])
    hann = np.zeros(FFT)
    begin = (FFT - WINDOW) // 2
    hann[begin : begin + WINDOW] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    angle = -2j * np.pi * np.outer(np.arange(half + 1), np.arange(FFT)) / FFT
    rows = []
    for t in range(len(wave) // HOP):
        power = np.abs(np.exp(angle) @ (hann * mirrored[t * HOP : t * HOP + FFT])) ** 2
        rows.append(np.log(np.maximum(filters @ power, 1e-10)))
    return np.array(rows)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_the_filter_bank_is_triangles_even_on_the_mel_scale(scale: str) -> None:
    found = mel_filters(RATE, FFT, MELS, 0.0, RATE / 2, scale).numpy()
    np.testing.assert_allclose(found, filters_written_out(scale), atol=1e-9)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_log_mel_frames_are_the_written_out_ones(scale: str) -> None:
    wave = sound()
    found = log_mel(torch.from_numpy(wave), mel_filters(RATE, FFT, MELS, 0.0, RATE / 2, scale), window=WINDOW, hop=HOP, fft=FFT)
    np.testing.assert_allclose(found.numpy(), frames_written_out(wave, filters_written_out(scale)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_mels_and_hertz_are_inverse(scale: str) -> None:
    hz = np.array([0.0, 50, 999, 1000, 1001, 4000, 8000])
    np.testing.assert_allclose(mel_to_hz(hz_to_mel(hz, scale), scale), hz, atol=1e-9)
    assert band_edges(4, 100.0, 900.0, scale)[[0, -1]] == pytest.approx([100.0, 900.0])


def test_a_pure_tone_is_loudest_in_the_band_it_lies_in() -> None:
    edges = band_edges(MELS, 0.0, RATE / 2, "slaney")
    wave = torch.sin(2 * math.pi * float(edges[11]) * torch.arange(2400) / RATE)
    y = log_mel(wave, mel_filters(RATE, FFT, MELS, 0.0, RATE / 2, "htk").float(), window=WINDOW, hop=HOP, fft=FFT)
    edges = band_edges(MELS, 0.0, RATE / 2, "htk")
    band = int(y[5:-5].mean(0).argmax())
    assert edges[band] < float(band_edges(MELS, 0.0, RATE / 2, "slaney")[11]) < edges[band + 2]


@pytest.mark.parametrize("samples", [1, 79, 80, 129, 130, 1000])
def test_the_shortest_sound_has_a_frame_and_the_others_one_a_hop(samples: int) -> None:
    filters = mel_filters(RATE, FFT, MELS, 0.0, RATE / 2, "htk").float()
    y = log_mel(torch.randn(samples), filters, window=WINDOW, hop=HOP, fft=FFT)
    assert y.shape == (max(samples // HOP, 1), MELS)
    assert y.isfinite().all()


def test_whispers_range_is_eight_powers_of_ten_below_the_loudest_valid_frame() -> None:
    y = torch.tensor([[[0.0, -30.0], [2.302585, -1.0], [50.0, 50.0]]])
    valid = torch.tensor([[True, True, False]])
    found = whisper_range(y, valid)[0, :2]
    base = y[0, :2] / math.log(10)
    assert_close(found, (torch.maximum(base, torch.tensor(1.0 - 8)) + 4) / 4)
