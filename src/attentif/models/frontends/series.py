"""Time series to vectors: a token for each time step, or for each patch of steps.

    x_i = W · [z_{s·i+o}, …, z_{s·i+o+p−1}] + b + Σ_f E_f(calendar_f) + positions       p: patch, s: stride, o = (T − p) mod s

The last patch ends with the last step; the few first steps that do not fill one are left out. By default a token holds all channels;
`independent` makes each channel a sequence of its own, read with the same weights (PatchTST: Nie et al. 2023, section 3.1). The calendar
(hour, weekday, day of the month, month, each a number from 0) is a learned vector, or cyclic: W_f [sin 2πc/n, cos 2πc/n].

Reversible instance normalisation (Kim et al. 2022, without the affine part, as PatchTST has it) is a pair of functions that a task puts
around the model, for what the head gives must be brought back to the scale of the window:

    z = (x − μ) / (σ + ε)   →   y = head · (σ + ε) + μ        window: mean and deviation of what is read   last: its last value, and 1
"""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.models.frontends.tokens import position_ids
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq

CALENDAR = {"hour": 24, "weekday": 7, "day": 31, "month": 12}  # columns of `Input.beside`, in this order, and how many values each has
Normalise = Literal["none", "window", "last"]
Fields = Annotated[tuple[Literal["hour", "weekday", "day", "month"], ...], Field(strict=False)]
EPS = 1e-5


@FRONTENDS.register
class SeriesConfig(FrontendConfig):
    """Measurements (B, T, channels), a token for each step or patch of steps."""

    kind: Literal["series"] = Field("series", description="measurements: a token for each step, or for each patch of steps")
    from_data = ("channels",)
    channels: int | None = Field(None, gt=0, description="numbers of a step; by default the data's")
    patch: int = Field(1, gt=0, description="steps of a token (PatchTST: 16)")
    stride: int | None = Field(None, gt=0, description="steps from one patch to the next; by default they do not overlap")
    independent: bool = Field(False, description="each channel is a sequence of its own, read with the same weights (PatchTST)")
    normalise: Normalise = Field("none", description="reversible normalisation: window (RevIN), last (subtract the last value), none")
    calendar: Fields = Field((), description="calendar features: hour, weekday, day, month")
    calendar_as: Literal["cyclic", "learned"] = Field("cyclic", description="sine and cosine of each field, or a learned vector per value")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    position: Position | None = Field(None, description="positions added to the tokens")
    norm: Norm | None = Field(None, description="normalise the sum")

    @model_validator(mode="after")
    def _covers(self) -> Self:
        if self.stride is not None and self.stride > self.patch:
            raise ValueError(f"stride: {self.stride} steps would leave out some between patches of {self.patch}")
        return self

    def build(self, width: int, dropout: float) -> "SeriesFrontend":
        return SeriesFrontend(self, width, dropout)

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    def tokens(self, steps: int) -> int:
        """Number of tokens for `steps` time steps."""
        return max(0, (steps - self.patch) // self.step + 1)

    @property
    def step(self) -> int:
        """Time steps from one patch to the next."""
        return self.stride or self.patch


class SeriesFrontend(nn.Module):
    def __init__(self, config: SeriesConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.channels is None:
            raise ConfigError("channels: the number of channels is not known yet; give it, or train on series")
        self.channels, self.independent = config.channels, config.independent
        self.size, self.stride = config.patch, config.step
        self.patch = nn.Linear(config.patch * (1 if config.independent else config.channels), width)
        self.calendar = Calendar(config.calendar, config.calendar_as, width) if config.calendar else None
        self.position = config.position.build(width) if config.position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        if source.data.shape[-1] != self.channels:
            raise ValueError(f"series of {source.data.shape[-1]} channels given to a model of {self.channels}")
        data, seq = source.data, source.seq
        dates = None if source.beside is None else source.beside.data
        if self.size > 1:
            data, dates, seq = self._cut_patches(data, dates, seq)
        if self.independent:  # (B, n, C · p) to (B · C, n, p)
            data = data.unflatten(-1, (self.channels, -1)).transpose(1, 2).flatten(0, 1)
            seq = self._split_channels(seq)
        x = self.patch(data)
        if self.calendar is not None:
            if dates is None:
                raise ValueError("this model reads the calendar: Input.beside must hold it")
            known = self.calendar(dates)
            x = x + (known.repeat_interleave(self.channels, 0) if self.independent else known)
        if self.position is not None:
            x = x + self.position(position_ids(seq), x.dtype)
        return dropout(self.norm(x), self.dropout, self.training), seq

    def _cut_patches(self, data: Tensor, dates: Tensor | None, seq: Seq) -> tuple[Tensor, Tensor | None, Seq]:
        """Return patches, the dates of their last steps, and their Seq."""
        if seq.start is not None or seq.is_packed:
            raise ValueError("patches are cut from whole windows: neither packed, nor after a state")
        if int(seq.lengths.min()) < self.size:
            raise ValueError(f"{int(seq.lengths.min())} steps do not fill a patch of {self.size}")
        steps = patch_steps(seq.lengths, self.size, self.stride)
        lengths = torch.div(seq.lengths - self.size, self.stride, rounding_mode="floor") + 1
        if dates is not None:
            dates = dates.gather(1, steps[:, :, -1:].expand(*steps.shape[:2], dates.shape[-1]))
        if seq.dense:
            data = patches(data, self.size, self.stride)
        else:
            data = data.gather(1, steps.flatten(1)[..., None].expand(-1, -1, data.shape[-1]))
            data = data.unflatten(1, steps.shape[1:]).transpose(2, 3).flatten(2)
        return data, dates, Seq.from_padded(lengths, data.shape[1])

    def _split_channels(self, seq: Seq) -> Seq:
        """Treat each channel as a sequence; channels of a window are adjacent in the batch."""
        start: int | Tensor = 0 if seq.start is None else seq.start.repeat_interleave(self.channels)
        return Seq.from_padded(seq.lengths.repeat_interleave(self.channels), seq.pos.shape[1], start)


class Calendar(nn.Module):
    """Sum of embeddings of the calendar fields of a date."""

    def __init__(self, known: tuple[str, ...], how: Literal["cyclic", "learned"], width: int) -> None:
        super().__init__()
        self.columns = [list(CALENDAR).index(name) for name in known]
        self.counts = [CALENDAR[name] for name in known]
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in self.counts) if how == "learned" else None
        self.cycles = nn.Linear(2 * len(known), width, bias=False) if how == "cyclic" else None

    def forward(self, dates: Tensor) -> Tensor:
        """(B, T, D) of (B, T, 4) numbers."""
        if self.tables is not None:
            return torch.stack([table(dates[..., column]) for table, column in zip(self.tables, self.columns, strict=True)]).sum(0)
        assert self.cycles is not None
        turns = [2 * math.pi / count * dates[..., column] for count, column in zip(self.counts, self.columns, strict=True)]
        waves = [wave for turn in turns for wave in (turn.sin(), turn.cos())]
        return self.cycles(torch.stack(waves, -1).to(self.cycles.weight.dtype))


def patches(data: Tensor, size: int, stride: int) -> Tensor:
    """(B, T, C) to (B, n, C · size), channel by channel; the last patch ends with the last step."""
    return data[:, (data.shape[1] - size) % stride :].unfold(1, size, stride).flatten(2)


def patch_steps(lengths: Tensor, size: int, stride: int) -> Tensor:
    """(B, n, size): time steps of each patch in rows of different lengths."""
    first = (lengths - size) % stride
    count = int((torch.div(lengths - size, stride, rounding_mode="floor") + 1).max())
    inside = stride * torch.arange(count, device=lengths.device)[:, None] + torch.arange(size, device=lengths.device)
    return torch.minimum(first[:, None, None] + inside, lengths[:, None, None] - 1)


def normalise_window(read: Tensor, how: Normalise) -> tuple[Tensor, Tensor, Tensor]:
    """Return the normalised window (B, T, C), and the shift and scale (B, 1, C) that undo it."""
    if how == "none":
        return read, read.new_zeros(1, 1, 1), read.new_ones(1, 1, 1)
    if how == "last":
        shift = read[:, -1:]
        return read - shift, shift, torch.ones_like(shift)
    shift = read.mean(1, keepdim=True)
    scale = read.var(1, keepdim=True, unbiased=False).add(EPS).sqrt()
    return (read - shift) / scale, shift, scale
