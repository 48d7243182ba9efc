"""Audio frames to vectors: subsampled by convolutions or patches.

    conformer   relu(conv 3×3, stride 2), twice, over time and bands; then a linear map of what is left of the bands       T → ⌈⌈T/2⌉/2⌉
    stages      relu(norm(conv 3×3, stride 2)) over time and bands, once for each number of channels; then a linear map     T → ⌈T/2ⁿ⌉
    whisper     gelu(conv 3 over time), gelu(conv 3 over time, stride 2)                                                T → ⌈T/2⌉
    patches     a linear map of each rectangle of frames and bands, which may overlap; those of one time stand together  (AST)
    none        a linear map of each frame                                                                              T → T

Gulati et al. 2020 (Conformer), Radford et al. 2022 (Whisper), Gong et al. 2021 (AST). Before anything else, each sound is normalised by
itself: `mean` takes off each band's mean over its frames (a microphone's colour), `mean-variance` divides by its deviation too, `whisper`
is Whisper's range. The norm of `stages` is over all frames and bands and a quarter of the channels of each sound (Wu & He 2018). Padding is
zero before every convolution, as what lies beyond a sound alone is: no valid frame sees it.
"""

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Ints, Pair
from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.kernels.mel import whisper_range
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.models.frontends.tokens import position_ids
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq, unpack

Normalise = Literal["none", "mean", "mean-variance", "whisper"]
GROUPS = 4  # of channels, in the norms of `stages`


@FRONTENDS.register
class FramesConfig(FrontendConfig):
    """Audio frames (B, T, mels): subsampling, then positions, norm, dropout."""

    kind: Literal["frames"] = Field("frames", description="frames of sound: the loudness of each band of frequencies")
    from_data = ("mels",)
    mels: int | None = Field(None, gt=0, description="bands of a frame; by default the data's")
    normalise: Normalise = Field("mean-variance", description="each sound by itself: none, mean, mean-variance (of each band), whisper")
    subsample: Literal["conformer", "stages", "whisper", "patches", "none"] = Field("conformer", description="subsampling of frames")
    stages: Ints = Field((16, 32, 64), min_length=1, description="channels of `stages`, multiples of 4; each halves frames and bands")
    channels: int | None = Field(None, gt=0, description="of the conformer's convolutions; by default the model's width")
    patch: Pair = Field((16, 16), description="frames and bands of a patch")
    stride: Pair = Field((10, 10), description="frames and bands from one patch to the next")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout, also inside `stages`; by default the model's")
    position: Position | None = Field(None, description="positions added to the vectors")
    norm: Norm | None = Field(None, description="normalise the sum")

    def build(self, width: int, dropout: float) -> "Frames":
        return Frames(self, width, dropout)

    @property
    def limit(self) -> int | None:
        """In frames, before subsampling."""
        position_ids = self.position.limit if self.position else None
        if position_ids is None:
            return None
        if self.subsample == "patches":
            return max(position_ids // self.rows - 1, 0) * self.stride[0] + self.patch[0]
        return position_ids << self.halvings

    @property
    def rows(self) -> int:
        """Number of patches per column."""
        return (self.with_any_size().mels - self.patch[1]) // self.stride[1] + 1  # type: ignore[operator]

    def output_lengths(self, frames: Tensor) -> Tensor:
        """Number of vectors for sounds of `frames` frames."""
        if self.subsample == "patches":
            return self.rows * (-(-(frames - self.patch[0]).clamp(min=0) // self.stride[0]) + 1)
        return -(-frames // 2**self.halvings)

    @property
    def halvings(self) -> int:
        return {"conformer": 2, "stages": len(self.stages), "whisper": 1, "none": 0, "patches": 0}[self.subsample]


class Frames(nn.Module):
    def __init__(self, config: FramesConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.mels is None:
            raise ConfigError("mels: the bands of a frame are not known yet; give them, or train on sounds")
        if config.dropout is None:
            config = config.replace(dropout=dropout)
        self.config, self.mels = config, config.mels
        self.subsample = SUBSAMPLING[config.subsample](config, width)
        self.position = config.position.build(width) if config.position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = config.dropout or 0.0

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x, seq = source.data, source.seq
        if x.shape[-1] != self.mels:
            raise ValueError(f"frames of {x.shape[-1]} bands given to a model of {self.mels}")
        if seq.is_packed:  # convolutions want rows
            x, seq = unpack(x, seq), Seq.from_padded(seq.lengths)
        x = self.subsample(normalise_features(x, seq, self.config.normalise), seq)
        seq = Seq.from_padded(self.config.output_lengths(seq.lengths), x.shape[1])
        if self.position is not None:
            x = x + self.position(position_ids(seq), x.dtype)
        return dropout(self.norm(x), self.dropout, self.training), seq


def normalise_features(x: Tensor, seq: Seq, how: Normalise) -> Tensor:
    """Normalise each sound of (B, T, mels) by itself; zero on padding."""
    valid = seq.valid[..., None]
    if how == "whisper":
        x = whisper_range(x, seq.valid)
    elif how != "none":
        count = seq.lengths.clamp(min=1)[:, None, None]
        x = x - x.masked_fill(~valid, 0).sum(1, keepdim=True) / count
        if how == "mean-variance":
            x = x * torch.rsqrt(x.masked_fill(~valid, 0).square().sum(1, keepdim=True) / count + 1e-5)
    return x if seq.dense else x.masked_fill(~valid, 0)


def _zero_beyond(x: Tensor, lengths: Tensor, time: int) -> Tensor:
    """Zero what lies after each row's length along the axis `time`."""
    shape = [1] * x.ndim
    shape[0], shape[time] = len(lengths), x.shape[time]
    inside = torch.arange(x.shape[time], device=x.device) < lengths[:, None]
    return x * inside.view(shape)


class Conformer4(nn.Module):
    """Two 3×3 convolutions of stride 2, then a linear map."""

    def __init__(self, config: FramesConfig, width: int) -> None:
        super().__init__()
        channels, mels = config.channels or width, config.mels or 1
        self.first = nn.Conv2d(1, channels, 3, 2, 1)
        self.second = nn.Conv2d(channels, channels, 3, 2, 1)
        self.out = nn.Linear(channels * ((mels + 3) // 4), width)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = F.relu(self.first(x[:, None]))  # (B, channels, T/2, mels/2)
        if not seq.dense:
            x = _zero_beyond(x, (seq.lengths + 1) // 2, 2)
        x = F.relu(self.second(x))
        return self.out(x.transpose(1, 2).flatten(2))


class Stages(nn.Module):
    """3×3 convolutions of stride 2, each with a norm and a ReLU, then a linear map."""

    def __init__(self, config: FramesConfig, width: int) -> None:
        super().__init__()
        if wrong := [channels for channels in config.stages if channels % GROUPS or channels < 1]:
            raise ConfigError(f"stages: {wrong[0]} channels make no {GROUPS} groups of one size; take a multiple of {GROUPS}")
        self.dropout = config.dropout or 0.0
        sizes = (1, *config.stages)
        self.convs = nn.ModuleList(nn.Conv2d(before, after, 3, 2, 1) for before, after in pairwise(sizes))
        self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, channels) for channels in config.stages)
        self.out = nn.Linear(sizes[-1] * -(-(config.mels or 1) // 2 ** len(config.stages)), width)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x, lengths = x[:, None], seq.lengths  # (B, channels, T, mels), both halved by each stage
        for conv, norm in zip(self.convs, self.norms, strict=True):
            assert isinstance(norm, nn.GroupNorm)
            x, lengths = conv(x), (lengths + 1) // 2
            x = F.relu(norm(x) if seq.dense else group_norm(x, lengths, norm))
            x = x if seq.dense else _zero_beyond(x, lengths, 2)
        return self.out(dropout(x.transpose(1, 2).flatten(2), self.dropout, self.training))


def group_norm(x: Tensor, lengths: Tensor, norm: nn.GroupNorm) -> Tensor:
    """Apply `norm` to each row (channels, T, mels), ignoring what lies beyond its length."""
    rows, channels, _, bands = x.shape
    groups = _zero_beyond(x, lengths, 2).view(rows, norm.num_groups, -1)
    count = (lengths * bands * (channels // norm.num_groups))[:, None, None]
    mean = groups.sum(2, keepdim=True) / count
    inside = _zero_beyond((x.view(rows, norm.num_groups, -1) - mean).view_as(x), lengths, 2)
    spread = inside.view(rows, norm.num_groups, -1).square().sum(2, keepdim=True) / count
    scaled = (inside.view(rows, norm.num_groups, -1) * torch.rsqrt(spread + norm.eps)).view_as(x)
    return scaled * norm.weight[:, None, None] + norm.bias[:, None, None]


class Whisper2(nn.Module):
    """A convolution over time, then another of stride 2."""

    def __init__(self, config: FramesConfig, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(config.mels or 1, width, 3, 1, 1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = F.gelu(self.first(x.mT))
        if not seq.dense:
            x = _zero_beyond(x, seq.lengths, 2)
        return F.gelu(self.second(x)).mT


class SoundPatches(nn.Module):
    """Patches of frames and bands, ordered by time, then from the lowest band up."""

    def __init__(self, config: FramesConfig, width: int) -> None:
        super().__init__()
        if (config.mels or 0) < config.patch[1]:
            raise ConfigError(f"patch: {config.patch[1]} bands high, and a frame has {config.mels}")
        self.config = config
        self.patch = nn.Conv2d(1, width, config.patch, config.stride)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        (frames, _), (step, _) = self.config.patch, self.config.stride
        columns = -(-max(x.shape[1] - frames, 0) // step) + 1
        x = F.pad(x, (0, 0, 0, (columns - 1) * step + frames - x.shape[1]))  # the last patch may reach past the end
        return self.patch(x[:, None]).permute(0, 2, 3, 1).flatten(1, 2)


class EachFrame(nn.Linear):
    def __init__(self, config: FramesConfig, width: int) -> None:
        super().__init__(config.mels or 1, width)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:  # type: ignore[override]
        return super().forward(x)


SUBSAMPLING: dict[str, type[nn.Module]] = {
    "conformer": Conformer4,
    "stages": Stages,
    "whisper": Whisper2,
    "patches": SoundPatches,
    "none": EachFrame,
}
