"""Sounds a little different each time they are trained on, made from their log-mel frames (B, T, mels) or their samples (B, T).

    speed    frames are read r times as fast, r ~ U(1 - s, 1 + s), between neighbours linearly               (Ko et al. 2015)
    ends     a sound begins up to a share e of itself earlier or later, and ends so too, then is brought back to its length; what lies
             beyond it is its first or last frame
    pitch    band f takes the value of f / w, w ~ U(1 - p, 1 + p): a longer or shorter vocal tract           (Jaitly & Hinton 2013)
    noise    y ← ln(eʸ + eⁿ), n a noise of random colour, drawn so many decibels below the sound's mean loudness
    masks    runs of frames, and of bands, are replaced by the sound's mean                                  (SpecAugment, Park et al. 2019)

Speed and pitch together are what playing a recording faster does: samples read faster are higher too, so that `pitch` is no change of
its own there, and there are no bands to hide; their noise is white, and what is hidden of them is silent. All is drawn from torch's
generator, which the loop sets anew at each step.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from attentif.config import Config
from attentif.kernels.mel import Scale, band_edges, hz_to_mel
from attentif.nn.seq import Seq


class SoundAugmentConfig(Config):
    """How sounds are changed in training; 0 leaves something out."""

    speed: float = Field(0.1, ge=0, lt=1, description="maximum relative change of speed")
    ends: float = Field(0.0, ge=0, lt=0.5, description="log-mel only: maximum shift of both ends, as a share of the sound")
    pitch: float = Field(0.1, ge=0, lt=1, description="log-mel only: maximum relative stretch of the frequencies, as of other voices")
    noise: float = Field(0.5, ge=0, le=1, description="share of the sounds with added noise")
    noise_db: tuple[float, float] = Field((0.0, 30.0), strict=False, description="range of the signal-to-noise ratio, in decibels")
    time_masks: int = Field(2, ge=0, description="number of time masks (SpecAugment)")
    time_width: float = Field(0.1, ge=0, le=1, description="maximum width of a time mask, as a share of the sound")
    band_masks: int = Field(2, ge=0, description="number of frequency masks (SpecAugment)")
    band_width: float = Field(0.2, ge=0, le=1, description="maximum width of a frequency mask, as a share of the bands")


class SoundAugment:
    """What `SoundAugmentConfig` says, for frames of one kind of mel scale."""

    def __init__(self, config: SoundAugmentConfig, mels: int, low: float, high: float, scale: Scale) -> None:
        self.config, self.scale = config, scale
        self.centres = torch.from_numpy(band_edges(mels, low, high, scale)[1:-1])  # Hz
        first, last = (float(hz_to_mel(hz, scale)) for hz in (low, high))
        self.first, self.step = first, (last - first) / (mels + 1)

    def __call__(self, x: Tensor, seq: Seq) -> tuple[Tensor, Seq]:
        """The same sounds, changed; lengths change with the speed."""
        config = self.config
        if config.speed:
            x, seq = change_speed(x, seq, 1 + config.speed * _even(len(x), x.device))
        if config.ends:
            x = recut(x, seq, config.ends * _even(len(x), x.device), config.ends * _even(len(x), x.device))
        if config.pitch:
            x = self.stretch_pitch(x, 1 + config.pitch * _even(len(x), x.device))
        if config.noise:
            x = self.add_noise(x, seq)
        return mask(x, seq, config), seq

    def stretch_pitch(self, x: Tensor, factor: Tensor) -> Tensor:
        """Each row with its frequencies multiplied by its factor (B,)."""
        asked = hz_to_mel((self.centres / factor.cpu()[:, None]).numpy(), self.scale)
        bands = torch.from_numpy((asked - self.first) / self.step - 1).clamp(0, x.shape[2] - 1).to(x)
        # the same for all frames of a row: a matrix of two weights a band, which a product applies faster than a gather would
        near = (1 - (bands[:, None, :] - torch.arange(x.shape[2]).to(x)[:, None]).abs()).clamp(min=0)  # (B, mels, mels)
        return x @ near

    def add_noise(self, x: Tensor, seq: Seq) -> Tensor:
        """Some rows with noise, of a colour that rises or falls evenly over the bands."""
        low, high = self.config.noise_db
        rows, _, bands = x.shape
        mean = x.exp().masked_fill(~seq.valid[..., None], 0).sum((1, 2)) / (seq.lengths * bands)
        below = (low + (high - low) * torch.rand(rows, device=x.device)) * math.log(10) / 10
        tilt = torch.randn(rows, 1, 1, device=x.device) * torch.linspace(-1, 1, bands, device=x.device)
        grain = -(torch.rand_like(x) * torch.rand_like(x)).clamp(min=1e-12).log() / 2  # the power of noise varies: a gamma of shape 2
        chosen = torch.rand(rows, device=x.device) < self.config.noise
        level = torch.where(chosen, mean * torch.exp(-below), 0)[:, None, None]
        return (x.exp() + level * tilt.exp() * grain).log()


class WaveAugment:
    """The same of samples (B, T)."""

    def __init__(self, config: SoundAugmentConfig) -> None:
        self.config = config

    def __call__(self, x: Tensor, seq: Seq) -> tuple[Tensor, Seq]:
        config, rows = self.config, len(x)
        if config.speed:
            x, seq = change_speed(x[..., None], seq, 1 + config.speed * _even(rows, x.device))
            x = x[..., 0]
        if config.noise:
            low, high = config.noise_db
            below = 10 ** (-(low + (high - low) * torch.rand(rows, device=x.device)) / 20)
            power = (x.masked_fill(~seq.valid, 0).square().sum(1) / seq.lengths).sqrt()
            level = torch.where(torch.rand(rows, device=x.device) < config.noise, power * below, 0)
            x = x + level[:, None] * torch.randn_like(x)
        for _ in range(config.time_masks):
            x = x.masked_fill(_runs(seq.lengths, config.time_width, x.shape[1]), 0)
        return x.masked_fill(~seq.valid, 0), seq


def change_speed(x: Tensor, seq: Seq, rate: Tensor) -> tuple[Tensor, Seq]:
    """Each row read at its own rate (B,): fewer frames above 1, more below."""
    lengths = (seq.lengths / rate).round().long().clamp(min=1)
    return _read_at(x, seq, torch.arange(int(lengths.max()), device=x.device) * rate[:, None]), Seq.from_padded(lengths)


def recut(x: Tensor, seq: Seq, begin: Tensor, end: Tensor) -> Tensor:
    """Each row from `begin` to 1 + `end` (B,), as shares of its length, in as many frames as before."""
    last = (seq.lengths - 1)[:, None]
    share = torch.arange(x.shape[1], device=x.device) / last.clamp(min=1)
    return _read_at(x, seq, (begin[:, None] + share * (1 + end - begin)[:, None]) * last)


def _read_at(x: Tensor, seq: Seq, places: Tensor) -> Tensor:
    """(B, places, ...): rows read between their frames, linearly, and at their first or last one beyond them."""
    last = (seq.lengths - 1)[:, None]
    places = torch.minimum(places.clamp(min=0), last.to(places))
    before = places.long()
    weight = (places - before)[..., None].to(x)
    rows = torch.arange(len(x), device=x.device)[:, None]
    return torch.lerp(x[rows, before], x[rows, torch.minimum(before + 1, last)], weight)


def mask(x: Tensor, seq: Seq, config: SoundAugmentConfig) -> Tensor:
    """Runs of frames and of bands replaced by the mean of each band."""
    rows, frames, bands = x.shape
    hidden = torch.zeros(rows, frames, bands, dtype=torch.bool, device=x.device)
    for _ in range(config.time_masks):
        hidden |= _runs(seq.lengths, config.time_width, frames)[:, :, None]
    for _ in range(config.band_masks):
        hidden |= _runs(torch.full_like(seq.lengths, bands), config.band_width, bands)[:, None, :]
    mean = x.masked_fill(~seq.valid[..., None], 0).sum(1, keepdim=True) / seq.lengths[:, None, None]
    return torch.where(hidden, mean, x)


def _runs(sizes: Tensor, share: float, places: int) -> Tensor:
    """(B, places): a run in each row, of up to this share of its size, anywhere within it."""
    width = torch.rand(len(sizes), device=sizes.device) * share * sizes
    begin = torch.rand(len(sizes), device=sizes.device) * (sizes - width)
    place = torch.arange(places, device=sizes.device) + 0.5
    return (place >= begin[:, None]) & (place < (begin + width)[:, None])


def _even(rows: int, device: torch.device) -> Tensor:
    """(rows,) between -1 and 1."""
    return 2 * torch.rand(rows, device=device) - 1
